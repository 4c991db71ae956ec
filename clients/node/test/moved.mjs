// Run by TestNodeGoesOnInOtherPartitions (integration/node_test.go): publishes the series
// that come on standard input, a third before the job's number of partitions changes, a
// third behind it, and the last one as a client that is started again.
import { once } from "node:events";
import { connect } from "../index.js";

const [url] = process.argv.slice(2);
const options = { url, channels: ["c0", "c1"], rows: 7, latency: 5, resume: true };
const series = JSON.parse((await once(process.stdin, "data"))[0]);

async function play(client, share) {
  for (const [stream, samples] of Object.entries(series)) {
    const some = samples.slice(0, samples.length * share);
    await client.publish(stream, some, { times: some.map((_, i) => BigInt(i + 1) * 1000000n) });
  }
  await client.flush();
}

const first = await connect(options);
await play(first, 1 / 3);
console.log("a third");
await once(process.stdin, "data"); // the number has changed
for (const [stream, samples] of Object.entries(series)) {
  const [from, to] = [samples.length / 3, (2 * samples.length) / 3];
  await first.publish(stream, samples.slice(from, to), { times: samples.slice(from, to).map((_, i) => BigInt(from + i + 1) * 1000000n) });
}
await first.close();
const second = await connect(options);
await play(second, 1);
await second.close();
