// The shared-cells game on Colyseus: one process, one room, no replication.
//
// `put {x}` sets the sender's cell; everybody's copy of the state follows by patches.
// --patch says when patches leave:
//   50, 1, ...   every so many milliseconds; 50 is Colyseus' default, and 1 the smallest interval a timer can have
//   tick         once per turn of the event loop that changed something: all that arrived together leaves together
//   message      after every single message
// The last two switch Colyseus' own timer off and call its public `broadcastPatch()`.
//
// One JSON line says where it listens. It ends when its standard input does, so it never outlives its driver.

import { createServer } from "node:http";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";

import { Room, Server } from "@colyseus/core";
import { Encoder, schema, t } from "@colyseus/schema";
import { WebSocketTransport } from "@colyseus/ws-transport";

const { values: options } = parseArgs({
  options: { port: { type: "string", default: "0" }, patch: { type: "string", default: "50" } },
});

// Thousands of cells overflow the default buffer of 16 KiB, and growing it prints a warning.
Encoder.BUFFER_SIZE = 1024 * 1024;

const Table = schema({ cells: t.map("number") }, "Table");

let applied = 0;
let patches = 0;

class Arena extends Room {
  state = new Table();
  seatReservationTimeout = 120;
  autoDispose = false;
  patchDue = false;

  onCreate() {
    const after = this.choosePatching(options.patch);
    this.onMessage("put", (client, message) => {
      this.state.cells.set(client.userData, message.x);
      applied += 1;
      after();
    });
  }

  // What has to happen after a message so that its change leaves in time.
  choosePatching(patch) {
    if (patch !== "tick" && patch !== "message") {
      this.patchRate = Number(patch);
      return () => {};
    }
    this.patchRate = null;
    return patch === "message" ? () => this.broadcastPatch() : () => this.patchThisTurn();
  }

  patchThisTurn() {
    if (this.patchDue) return;
    this.patchDue = true;
    setImmediate(() => {
      this.patchDue = false;
      this.broadcastPatch();
    });
  }

  broadcastPatch() {
    const changed = super.broadcastPatch();
    if (changed) patches += 1;
    return changed;
  }

  onJoin(client, { device }) {
    client.userData = device;
  }
}

// The server's own counters by its own clock, so that a late answer does not distort a rate.
function sample() {
  const { user, system } = process.cpuUsage();
  const { active, idle } = performance.eventLoopUtilization();
  return {
    time_ms: performance.now(),
    cpu_ms: (user + system) / 1000,
    active_ms: active,
    idle_ms: idle,
    applied,
    patches,
    rss_bytes: process.memoryUsage.rss(),
  };
}

const http = createServer();
const server = new Server({
  greet: false,
  transport: new WebSocketTransport({ server: http }),
  express: (app) => app.get("/sample", (_request, response) => response.json(sample())),
});
server.define("arena", Arena);
await server.listen(Number(options.port), "127.0.0.1");

process.stdin.on("end", () => process.exit(0));
process.stdin.resume();
console.log(JSON.stringify({ port: http.address().port, pid: process.pid, node: process.version }));
