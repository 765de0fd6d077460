// One decoder for all devices of a load generator, so that the server and not the generator is what gets measured.
//
// Without views Colyseus sends the same patches in the same order to everybody. A thousand devices in one process
// would decode every patch a thousand times, and that costs far more than the server's own work. Here each device
// still has its own official connection and receives every frame itself, but only the first arrival of a frame is
// decoded, by the official client of the first device. The rule that keeps this honest:
//
// 1. A device sees what frame k says when its own socket has delivered its own k-th frame, never earlier.
// 2. Every other copy of frame k must be the same bytes; `differing` counts those that are not.
//
// A frame is kept until the last device has had it, so the memory is bounded by how far devices lag behind.

const ROOM_STATE_PATCH = 15;
const CODE_MASK = 0x1f;

export class SharedDecoder {
  differing = 0;
  first = 0; // the number of the oldest frame kept
  frames = []; // {bytes, values: Map(name → value), left: devices that have not had it}

  // Take over from the devices' own decoders. All must have the same state, and nothing may be under way to some only.
  constructor(devices) {
    this.leader = devices[0].room;
    this.count = devices.length;
    this.decode = this.leader.connection.events.onmessage;
    this.leader.serializer.decoder.triggerChanges = (changes) => (this.changes = changes);
    this.leader.onStateChange.clear();
    devices.forEach((device) => this.takeOver(device));
  }

  get state() {
    return this.leader.state;
  }

  takeOver(device) {
    const events = device.room.connection.events;
    const original = events.onmessage;
    let number = 0;
    events.onmessage = (event) => {
      if ((new Uint8Array(event.data, 0, 1)[0] & CODE_MASK) !== ROOM_STATE_PATCH) return original(event);
      this.deliver(device, number, event);
      number += 1;
    };
  }

  deliver(device, number, event) {
    const frame = this.frames[number - this.first] ?? this.decodeFirst(event);
    if (frame.bytes !== event.data && Buffer.compare(Buffer.from(frame.bytes), Buffer.from(event.data)) !== 0) {
      this.differing += 1;
    }
    frame.left -= 1;
    while (this.frames.length > 0 && this.frames[0].left === 0) {
      this.frames.shift();
      this.first += 1;
    }
    const value = frame.values.get(device.name);
    if (value !== undefined) device.see(value);
  }

  decodeFirst(event) {
    this.decode(event);
    const values = new Map(this.changes.map((change) => [change.dynamicIndex, change.value]));
    const frame = { bytes: event.data, values, left: this.count };
    this.frames.push(frame);
    return frame;
  }
}
