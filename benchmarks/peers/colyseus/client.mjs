// N devices of the shared-cells game in one process, each with Colyseus' official client and its own connection.
//
// Device d puts 1, 2, 3, ... into its cell. A value that d sees in its own copy acknowledges all its lower ones.
//   latency      open loop: every device sends --rate times a second whatever comes back; measured from d's send
//                until d sees that value or a higher one
//   throughput   closed loop: every device keeps --window puts unacknowledged; measured in acknowledged puts
// --decode every gives each device its own copy of the state, as N real devices have; --decode shared decodes each
// patch once for all of them (see shared_decoder.mjs), which keeps this process from being the bottleneck for longer.
// One JSON line with the result ends the run. `converged` says that in the end every device saw every last value.

import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";

// Since Node 22 there is a built-in WebSocket that the client would prefer; `ws` costs the load generator less.
delete globalThis.WebSocket;
const { Client } = await import("@colyseus/sdk");
const { SharedDecoder } = await import("./shared_decoder.mjs");

const { values } = parseArgs({
  options: {
    port: { type: "string" },
    mode: { type: "string", default: "latency" },
    devices: { type: "string", default: "1" },
    seconds: { type: "string", default: "5" },
    warmup: { type: "string", default: "1" },
    window: { type: "string", default: "8" },
    rate: { type: "string", default: "10" },
    decode: { type: "string", default: "every" },
    drain: { type: "string", default: "15" },
  },
});
const mode = values.mode;
const count = Number(values.devices);
const window = Number(values.window);
const origin = `127.0.0.1:${values.port}`;

const JOINS_AT_ONCE_MAX = 32;
const GOLDEN = 0.6180339887498949;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// What is counted, between `open` and `close`.
const meter = { measuring: false, acknowledged: 0, latencies: [], lags: [] };

class Device {
  sent = 0;
  seen = 0;
  dropped = false;
  sentAt = new Map(); // value → time of its send; measured sends only, removed when seen

  constructor(name) {
    this.name = name;
    this.onSeen = () => {};
  }

  async join(client) {
    this.room = await client.joinOrCreate("arena", { device: this.name });
    this.room.onStateChange((state) => this.see(state.cells.get(this.name) ?? 0));
    this.room.onDrop(() => (this.dropped = true));
    this.room.onLeave(() => (this.dropped = true));
  }

  put() {
    this.sent += 1;
    if (meter.measuring && mode === "latency") this.sentAt.set(this.sent, performance.now());
    this.room.send("put", { x: this.sent });
  }

  see(value) {
    if (value <= this.seen) return;
    const news = value - this.seen;
    if (meter.measuring) meter.acknowledged += news;
    if (this.sentAt.size > 0) this.timeUpTo(value);
    this.seen = value;
    this.onSeen(news);
  }

  // A Map keeps the order of insertion, so the oldest sends come first.
  timeUpTo(value) {
    const now = performance.now();
    for (const [x, at] of this.sentAt) {
      if (x > value) return;
      meter.latencies.push(now - at);
      this.sentAt.delete(x);
    }
  }
}

async function joinAll() {
  const client = new Client(`http://${origin}`);
  const devices = Array.from({ length: count }, (_, index) => new Device(`d${index}`));
  await devices[0].join(client); // alone, so that there is one room
  for (let at = 1; at < count; at += JOINS_AT_ONCE_MAX) {
    await Promise.all(devices.slice(at, at + JOINS_AT_ONCE_MAX).map((device) => device.join(client)));
  }
  return devices;
}

const until = async (condition, seconds) => {
  const deadline = performance.now() + seconds * 1000;
  while (!condition() && performance.now() < deadline) await sleep(20);
  return condition();
};

// Sends are spread over the period and shifted inside their slots, so that they keep no step with the patch timer.
function openLoop(devices, rate) {
  const slot_ms = 1000 / (rate * devices.length);
  const start = performance.now();
  let k = 0;
  let timer;
  const due = () => start + (k + ((k * GOLDEN) % 1)) * slot_ms;
  const pump = () => {
    for (let at = due(); at <= performance.now(); at = due()) {
      if (meter.measuring) meter.lags.push(performance.now() - at);
      devices[k % devices.length].put();
      k += 1;
    }
    timer = setTimeout(pump, due() - performance.now());
  };
  pump();
  return () => clearTimeout(timer);
}

function closedLoop(devices) {
  for (const device of devices) {
    device.onSeen = (news) => {
      for (let i = 0; i < news; i += 1) device.put();
    };
    for (let i = 0; i < window; i += 1) device.put();
  }
  return () => devices.forEach((device) => (device.onSeen = () => {}));
}

async function sampleServer() {
  return (await fetch(`http://${origin}/sample`)).json();
}

function sampleClient() {
  const { user, system } = process.cpuUsage();
  const { active, idle } = performance.eventLoopUtilization();
  return { time_ms: performance.now(), cpu_ms: (user + system) / 1000, active_ms: active, idle_ms: idle };
}

// CPU seconds, and the share of the time in which the event loop had no rest, between two samples.
function usage(before, after) {
  const active = after.active_ms - before.active_ms;
  return {
    cpu_s: (after.cpu_ms - before.cpu_ms) / 1000,
    elapsed_s: (after.time_ms - before.time_ms) / 1000,
    busy: active / (active + after.idle_ms - before.idle_ms),
  };
}

async function measure(seconds) {
  const server_before = await sampleServer();
  const client_before = sampleClient();
  meter.measuring = true;
  await sleep(seconds * 1000);
  meter.measuring = false;
  const client_after = sampleClient();
  const server_after = await sampleServer();
  return {
    client: usage(client_before, client_after),
    server: {
      ...usage(server_before, server_after),
      applied: server_after.applied - server_before.applied,
      patches: server_after.patches - server_before.patches,
      rss_bytes: server_after.rss_bytes,
    },
  };
}

const percentile = (sorted, p) =>
  sorted.length === 0 ? null : sorted[Math.min(sorted.length - 1, Math.ceil(p * sorted.length) - 1)];

const isFinal = (state, devices) => devices.every((device) => state.cells.get(device.name) === device.sent);

function hasConverged(devices, shared) {
  if (shared !== null) return shared.differing === 0 && shared.frames.length === 0 && isFinal(shared.state, devices);
  return devices.every((device) => isFinal(device.room.state, devices));
}

function report(devices, usages, converged) {
  const latencies = meter.latencies.sort((a, b) => a - b);
  const lags = meter.lags.sort((a, b) => a - b);
  return {
    ...usages,
    events_per_s: meter.acknowledged / usages.client.elapsed_s,
    latency_count: latencies.length,
    latency_p50_ms: percentile(latencies, 0.5),
    latency_p99_ms: percentile(latencies, 0.99),
    send_lag_p99_ms: percentile(lags, 0.99),
    unseen: devices.reduce((sum, device) => sum + device.sent - device.seen, 0),
    dropped: devices.filter((device) => device.dropped).length,
    converged,
  };
}

// Whatever hangs, this process ends.
const limit_s = Number(values.warmup) + Number(values.seconds) + Number(values.drain) + 150;
setTimeout(() => process.exit(3), limit_s * 1000).unref();

async function prepare() {
  const devices = await joinAll();
  await insist(() => devices.every((device) => device.room.state.cells !== undefined), "joined");
  const shared = values.decode === "shared" ? new SharedDecoder(devices) : null;
  devices.forEach((device) => device.put());
  await insist(() => hasConverged(devices, shared), "saw every cell before the start");
  return { devices, shared };
}

async function insist(condition, what) {
  if (!(await until(condition, 60))) throw new Error(`not every device ${what}`);
}

const { devices, shared } = await prepare();
const stop = mode === "latency" ? openLoop(devices, Number(values.rate)) : closedLoop(devices);
await sleep(Number(values.warmup) * 1000);
const usages = await measure(Number(values.seconds));
stop();
await until(() => devices.every((device) => device.seen === device.sent), Number(values.drain));
const converged = await until(() => hasConverged(devices, shared), 2);
process.stdout.write(`${JSON.stringify(report(devices, usages, converged))}\n`, () => process.exit(0));
