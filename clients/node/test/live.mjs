// Run by TestNodeClient (integration/node_test.go): publishes the series that come on
// standard input, as a client that is restarted would, and prints what is predicted.
import { once } from "node:events";
import { connect, integrity } from "../index.js";

const [url, subject] = process.argv.slice(2), half = 20;
const series = JSON.parse((await once(process.stdin, "data"))[0]);
const say = (what) => console.log(JSON.stringify(what, (_, v) => (typeof v === "bigint" ? String(v) : v)));
const options = { url, subject, channels: ["c0", "c1"], rows: 7, latency: 5, buffer: 64, resume: true };
const time = (i) => BigInt(i + 1) * 1000000n;

// play publishes the samples from from to to-1 of each stream, a few at a time.
async function play(client, from, to) {
  for (let i = from; i < to; i += 3)
    for (const [stream, samples] of Object.entries(series)) {
      const last = Math.min(to, i + 3), times = [];
      for (let k = i; k < last; k++) times.push(time(k));
      await client.publish(stream, samples.slice(i, last), { times, end: last === to });
    }
}

let stored = 0;
const first = await connect({ ...options, stored: (_, n) => (stored += n) });
const length = Object.values(series)[0].length;
const predictions = await first.predictions({ from: 1 });
await play(first, 0, half);
await first.flush();
say({ stored });
await once(process.stdin, "data"); // the server was killed and started again
await play(first, half, 2 * half);
await first.flush();

// Another client that does not know what the first one has sent sends it again.
const second = await connect(options);
await play(second, 0, half);
await play(second, half, 2 * half);
await play(second, 2 * half, length);
await second.flush();
await first.publish(Object.keys(series)[0], [[0, 0]], { times: [time(2 * half)] });
await first.flush().then(() => say({ fenced: "no" }), (err) => say({ fenced: err.message }));

const want = 3 * Object.keys(series).length;
let seen = 0;
for await (const p of predictions) {
  say(p);
  if (++seen === want) break;
}
await first.label({ stream: "a b.c", from: -1n, to: 2n ** 60n + 1n, label: "slow", who: "anna", when: new Date(0) }).then(say);
await first.label({ stream: "a b.c", from: -1n, to: 2n ** 60n + 1n, label: "slow", who: "anna", when: new Date(0) }).then(say);
await first.label({ stream: "a b.c", seq: 2n ** 53n + 1n, row: 7, withdrawn: true, who: "bert" }).then(say);
say({ integrity: Array.from({ length: 2049 }, (_, flags) => integrity(flags)) });
await second.close();
await first.close().catch(() => {}); // it has ended with an error
