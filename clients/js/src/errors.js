// The errors of the client.
//
// OctoloomError
// ├── UsageError      the caller's fault: the text names the next step
// │   ├── Full        too much is not settled yet: nothing was taken
// │   └── Refused     the chain refuses this device for good; `code` says why
// ├── ProtocolError   a link's fault: that connection ends, and the next one is tried
// └── StoreError      a store cannot be read or written, or belongs to something else

export class OctoloomError extends Error {
  get name() {
    return this.constructor.name;
  }
}

export class UsageError extends OctoloomError {}

export class Full extends UsageError {}

export class Refused extends UsageError {
  constructor(code, text) {
    super(text);
    this.code = code;
  }
}

export class ProtocolError extends OctoloomError {
  constructor(code, detail) {
    super(`${code}: ${detail}`);
    this.code = code;
  }
}

export class StoreError extends OctoloomError {}
