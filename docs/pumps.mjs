// Ten simulated pumps, for docs/tutorial.md: three sensors each, 100 samples a second.
//
//     node pumps.mjs record FILE.csv [SEED]   two minutes of every pump, with what was the matter
//     node pumps.mjs live FILE.csv [SEED]     publish now, as time passes, and record that too
//     node pumps.mjs watch                    what the stage says; Ctrl-C counts
import { createWriteStream } from "node:fs";

const RATE = 100, ROWS = 50; // samples a second, samples in a message
const pumps = Array.from({ length: 10 }, (_, k) => `pump-${k + 1}`);
const url = process.env.NATS_URL ?? "nats://127.0.0.1:4222";

// random is a generator of numbers in [0, 1): the same seed gives the same ones.
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

// pump returns a function that gives the next sample in a state: vibration in mm/s,
// pressure in bar, motor current in A. Pumps differ a little from each other.
function pump(k, seed) {
  const own = random(1000 + k), r = random(seed * 100 + k);
  const speed = 23 + 3 * own(), level = 0.8 + 0.4 * own(), bar = 3.8 + 0.6 * own(), amps = 11 + 2 * own();
  const noise = () => r() + r() + r() + r() - 2; // about normal, deviation 0.58
  let i = 0, ring = 0, swell = 0;
  return (state) => {
    const t = i++ / RATE;
    if (i % 13 === 0) ring = 1 + 0.3 * noise(); // a rolling element meets the flaw
    ring *= 0.75;
    swell = 0.97 * swell + 0.05 * noise();
    const turn = 2 * Math.PI * speed * t;
    const s = [level * Math.sin(turn) + 0.25 * noise(), bar + 0.06 * Math.sin(turn * 0.98) + 0.05 * noise(), amps + 0.2 * noise() + swell];
    if (state === "worn-bearing") s[0] += 0.8 * ring * Math.sin(2 * Math.PI * 37 * t);
    if (state === "cavitation") { s[0] += 0.2 * noise(); s[1] += 0.06 * noise() - 0.05 + 0.3 * swell; }
    if (state === "dry-running") { s[0] += 0.3 * noise(); s[1] = 0.4 + 0.1 * noise(); s[2] *= 0.7; }
    return s;
  };
}

// day is what happens while you watch: from which second, to which pump, what. The label
// is what the maintenance log will say; null where the samples are no good to learn from.
const day = [
  { second: 15, pump: "pump-7", state: "worn-bearing", says: "the bearing of pump-7 is worn" },
  { second: 30, pump: "pump-3", state: "normal", dead: true, says: "the pressure sensor of pump-3 fails and reports 0" },
  { second: 45, pump: "pump-3", state: "normal", says: "pump-3 has a new sensor" },
  { second: 60, pump: "pump-5", state: "dry-running", says: "pump-5 runs dry, which no model has seen" },
];
const lastSecond = 90;

const header = "stream,time,vibration,pressure,current,label\n";
const line = (name, ms, s, label) => `${name},${new Date(ms).toISOString()},${s.map((v) => v.toFixed(4)).join(",")},${label ?? ""}\n`;

async function record(file, seed = 1) {
  const out = createWriteStream(file), begin = Date.UTC(2026, 0, seed);
  out.write(header);
  const states = ["normal", "worn-bearing", "cavitation"];
  for (const [k, name] of pumps.entries()) {
    const next = pump(k, seed);
    for (let i = 0; i < 120 * RATE; i++) {
      const state = states[(Math.floor(i / RATE / 20) + k) % 3]; // 20 seconds of each, twice
      out.write(line(name, begin + (1000 * i) / RATE, next(state), state));
    }
  }
  await new Promise((done) => out.end(done));
  console.log(`${file}: ${pumps.length} pumps, ${120 * RATE} samples each`);
}

async function live(file, seed = 3) {
  const { tableFromArrays, tableToIPC } = await import("apache-arrow");
  const { connect, headers } = await import("@nats-io/transport-node");
  const { jetstream } = await import("@nats-io/jetstream");
  const nc = await connect({ servers: url, maxReconnectAttempts: -1 });
  const js = jetstream(nc), begin = Date.now();
  const out = createWriteStream(file);
  out.write(header);
  const now = Object.fromEntries(pumps.map((name) => [name, { state: "normal" }]));
  const samples = pumps.map((_, k) => pump(k, seed));

  // send publishes a message until the server has it. A message that is sent again has the
  // number it had, so the stage counts it once.
  async function send(name, seq, batch) {
    const h = headers();
    h.set("Eusn-Seq", String(seq));
    h.set("Eusn-Incarnation", String(begin)); // each start of this program counts from 1
    for (;;) {
      try {
        return await js.publish(`sensors.${name}`, tableToIPC(batch, "stream"), { headers: h });
      } catch {
        await new Promise((done) => setTimeout(done, 200));
      }
    }
  }

  for (let seq = 1; seq <= (lastSecond * RATE) / ROWS; seq++) {
    const first = (seq - 1) * ROWS; // sample
    for (const e of day) {
      if (first === e.second * RATE) { now[e.pump] = e; console.log(`${e.second} s: ${e.says}`); }
    }
    await new Promise((done) => setTimeout(done, begin + (1000 * seq * ROWS) / RATE - Date.now()));
    await Promise.all(pumps.map(async (name, k) => {
      const { state, dead } = now[name];
      const rows = Array.from({ length: ROWS }, () => samples[k](state));
      if (dead) for (const s of rows) s[1] = 0;
      rows.forEach((s, i) => out.write(line(name, begin + (1000 * (first + i)) / RATE, s, dead ? null : state)));
      const column = (c) => Float32Array.from(rows, (s) => s[c]);
      await send(name, seq, tableFromArrays({ vibration: column(0), pressure: column(1), current: column(2) }));
    }));
  }
  console.log(`${lastSecond} s: the end`);
  out.end();
  await nc.drain();
}

async function watch() {
  const { tableFromIPC } = await import("apache-arrow");
  const { connect } = await import("@nats-io/transport-node");
  const { jetstreamManager } = await import("@nats-io/jetstream");
  const nc = await connect({ servers: url, maxReconnectAttempts: -1 });
  const seen = new Map(); // of each pump
  process.on("SIGINT", () => {
    for (const name of pumps) {
      const s = seen.get(name);
      if (s) console.log(`${name}: ${s.count} predictions, ${s.missing} missing, ${s.twice} twice`);
    }
    process.exit(0);
  });
  // Of the flags' bits (codec/doc.go), those that are seen here.
  const flagNames = { 1: "gap", 128: "out-of-range", 256: "flat" };
  const show = (m) => {
    const table = tableFromIPC(m.data);
    const labels = JSON.parse(table.schema.metadata.get("eusn.labels"));
    for (const row of table.toArray()) {
      const s = seen.get(row.stream_id) ?? { count: 0, missing: 0, twice: 0, end: 0 };
      seen.set(row.stream_id, s);
      // A prediction every 100 samples, the first after 200: is this the next one?
      const end = (Number(row.seq) - 1) * ROWS + row.row + 1, due = s.end === 0 ? 200 : s.end + 100;
      if (end > due) s.missing += (end - due) / 100;
      if (end < due) s.twice++;
      s.end = end;
      s.count++;
      const flags = Object.entries(flagNames).filter(([bit]) => row.flags & bit).map(([, name]) => name);
      // What a flagged prediction says of the machine is not worth a line for each change.
      const says = flags.length > 0 ? `flagged ${flags.join(", ")}: do not trust the class` : labels[row.class];
      if (says !== s.says) console.log(`${end / RATE} s  ${row.stream_id}: ${says}  (${labels[row.class]}, probability ${row.probability.toFixed(3)})`);
      s.says = says;
    }
  };
  // One stored message after the other, by its number: this survives any restart of the server.
  const jsm = await jetstreamManager(nc, { checkAPI: false });
  for (let next = 1; ; ) {
    const m = await jsm.streams.getMessage("EUSN-OUT", { seq: next, next_by_subj: "eusn.out.*" }).catch(() => null);
    if (!m) { // none yet, or the server is away
      await new Promise((done) => setTimeout(done, 200));
      continue;
    }
    next = m.seq + 1;
    if (m.header.get("Eusn-Kind") === "commit") show(m);
  }
}

const [what, ...args] = process.argv.slice(2);
const commands = { record: () => record(args[0] ?? "pumps.csv", Number(args[1] ?? 1)), live: () => live(args[0] ?? "live.csv", Number(args[1] ?? 3)), watch };
if (!commands[what]) {
  console.error("usage: node pumps.mjs record FILE.csv [SEED] | live FILE.csv [SEED] | watch");
  process.exit(2);
}
await commands[what]();
