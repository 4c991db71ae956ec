// Run by TestNodeSubjects (integration/node_test.go): compares subjects and keys with
// those of another program, then publishes the series that come on standard input, and
// all of it again as a client that is restarted would.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "../index.js";
import { Subject } from "../subject.js";

const [url, subject, cases] = process.argv.slice(2);
const wrong = [];
for (const c of JSON.parse(readFileSync(cases))) {
  const s = new Subject(c.pattern);
  if (s.of(c.key) !== c.subject || s.wrongKey(c.key)) wrong.push(`${c.subject} of ${c.pattern}`);
}
for (const bad of ["", "plant", "*", ">", "*.a", "plant.>.x", "plant..*", "plant.a*", "plant.{", "$JS.*", "p.{a b}", "p.* $JS.>", "p.* *"]) {
  try {
    new Subject(bad);
    wrong.push(bad);
  } catch {}
}
for (const [pattern, key] of [["p.*.*", "a"], ["p.*.*", "a..b"], ["p.*.>", "a"], ["s.*", "a.b"], ["p.>", "a. b"], ["p.>", "ab.".repeat(90) + "x"], ["p.* q.>", "p"], ["p.* q.>", "p.a.b"], ["p.* q.>", "q"], ["p.* q.>", "q.*"]])
  if (!new Subject(pattern).wrongKey(key)) wrong.push(`key ${key} of ${pattern}`);

const series = JSON.parse((await once(process.stdin, "data"))[0]);
for (const share of [0.5, 1]) {
  const client = await connect({ url, subject, channels: ["c0", "c1"], rows: 7, latency: 5, resume: true });
  for (const [stream, samples] of Object.entries(series)) {
    const some = samples.slice(0, samples.length * share);
    await client.publish(stream, some, { times: some.map((_, i) => BigInt(i + 1) * 1000000n) });
  }
  await client.close();
}
console.log(JSON.stringify({ wrong }));
