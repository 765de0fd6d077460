// The browser client of Octoloom. Types and the meaning of each name are in octoloom.d.ts.

export { Device } from "./device.js";
export { Full, OctoloomError, Refused, StoreError, UsageError } from "./errors.js";
export { Observer } from "./observer.js";
