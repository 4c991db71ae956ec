// Publish as a plant would, to see how many machines a core carries (docs/results.md).
//
//     npm install apache-arrow @nats-io/transport-node @nats-io/jetstream
//     node load.mjs csv [CHANNELS]                                a recording to train on, to standard output
//     node load.mjs publish MACHINES RATE SECONDS [CHANNELS]      one message per machine and second
const [what, ...numbers] = process.argv.slice(2);
const noise = () => Math.random() + Math.random() - 1;

// sample is one of a machine in state 0 or 1: waves of another shape, and noise.
const sample = (i, channels, state) => Array.from({ length: channels }, (_, c) => Math.sin(i / (4 + c)) + state * Math.sin(i / 1.7) * 0.8 + 0.5 * noise());

if (what === "csv") {
  const [channels = 6] = numbers.map(Number);
  const lines = ["stream," + Array.from({ length: channels }, (_, c) => `c${c}`).join(",") + ",label"];
  for (let m = 0; m < 20; m++) {
    for (let i = 0; i < 4000; i++) {
      const state = (Math.floor(i / 1000) + m) % 2;
      lines.push(`m${m},${sample(i, channels, state).map((v) => v.toFixed(4)).join(",")},${state ? "worn" : "healthy"}`);
    }
  }
  process.stdout.write(lines.join("\n") + "\n");
} else {
  const { tableFromArrays, tableToIPC } = await import("apache-arrow");
  const { connect, headers } = await import("@nats-io/transport-node");
  const { jetstream } = await import("@nats-io/jetstream");
  const [machines, rate, seconds, channels = 6] = numbers.map(Number);
  const nc = await connect({ servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222" });
  const js = jetstream(nc), begin = Date.now();
  // A hundred payloads, used again and again: what is measured is the stage.
  const payloads = Array.from({ length: 100 }, (_, k) => {
    const rows = Array.from({ length: rate }, (_, i) => sample(i, channels, k % 2));
    return tableToIPC(tableFromArrays(Object.fromEntries(Array.from({ length: channels }, (_, c) => [`c${c}`, Float32Array.from(rows, (r) => r[c])]))), "stream");
  });
  for (let second = 0; second < seconds; second++) {
    const acknowledged = [];
    for (let m = 0; m < machines; m++) {
      // Machines do not report at the same moment: ten groups in each second.
      const due = begin + 1000 * second + 100 * Math.floor((10 * m) / machines);
      if (Date.now() < due) await new Promise((done) => setTimeout(done, due - Date.now()));
      const h = headers();
      h.set("Eusn-Seq", String(second + 1));
      h.set("Eusn-Incarnation", String(begin));
      acknowledged.push(js.publish(`sensors.m${m}`, payloads[(m + second) % 100], { headers: h, timeout: 60000 }));
    }
    await Promise.all(acknowledged);
  }
  console.log(`${machines * seconds} messages of ${rate} samples of ${channels} channels in ${((Date.now() - begin) / 1000).toFixed(1)} s`);
  await nc.drain();
}
