// The messages: samples to Arrow, Arrow to predictions. What each column and flag
// means is in docs/reference.md.
import { Float32, makeData, makeVector, Table, tableFromIPC, tableToIPC, TimestampNanosecond } from "apache-arrow";
import { extras, flagNames } from "./columns.js";

// encodeSamples makes a message of columns of numbers, one per channel, and of times
// (bigint ns since 1970, null where a sample has none).
export function encodeSamples(channels, columns, times) {
  const fields = {};
  if (times.some((t) => t !== null)) {
    const nullBitmap = new Uint8Array(Math.ceil(times.length / 8));
    times.forEach((t, i) => { if (t !== null) nullBitmap[i >> 3] |= 1 << (i & 7); });
    const type = new TimestampNanosecond("UTC");
    const nullCount = times.filter((t) => t === null).length;
    const data = BigInt64Array.from(times, (t) => t ?? 0n);
    fields.ts = makeVector(makeData({ type, data, length: times.length, nullCount, nullBitmap: nullCount ? nullBitmap : undefined }));
  }
  channels.forEach((name, c) => {
    const data = Float32Array.from(columns[c]);
    fields[name] = makeVector(makeData({ type: new Float32(), data, length: data.length, nullCount: 0 }));
  });
  return tableToIPC(new Table(fields), "stream"); // not the file format; without compression
}

const bit = (name) => 1 << flagNames.indexOf(name);

// The worst of a prediction's flags wins.
const judgments = [
  ["unlike-training", bit("out-of-range") | bit("flat") | bit("length") | bit("rate")],
  ["gap", bit("gap")],
  ["poison-skipped", bit("poison-skipped")],
  ["held", bit("held")],
  ["idle", bit("idle")],
  ["early", bit("early") | bit("warm-up") | bit("decided")],
];

// integrity says in a word how far to trust a prediction.
export function integrity(flags) {
  if (flags >>> flagNames.length !== 0) return "unknown"; // a flag of a later version
  return judgments.find(([, bits]) => flags & bits)?.[0] ?? "complete";
}

// decodePredictions reads one message of a job's output.
export function decodePredictions(data) {
  const table = tableFromIPC(data);
  if (table.schema.metadata.get("eusn.schema") !== "prediction") throw new Error("not a message of predictions");
  const labels = JSON.parse(table.schema.metadata.get("eusn.labels"));
  const column = (name) => table.getChild(name);
  const [stream, seq, row, cls, score, probability, scores, flags, readout] =
    ["stream_id", "seq", "row", "class", "score", "probability", "scores", "flags", "readout"].map(column);
  const more = extras.map(([name, field, holds]) => [field, values[holds], column(name)]);
  const times = nanoseconds(column("ts"));
  return Array.from({ length: table.numRows }, (_, i) => ({
    stream: stream.get(i), class: labels[cls.get(i)], probability: probability?.get(i) ?? null, score: score.get(i),
    scores: scores ? Array.from(scores.get(i)) : null, integrity: integrity(flags.get(i)), flags: flags.get(i),
    seq: seq.get(i), row: row.get(i), time: times[i], readout: readout?.get(i) || null,
    ...Object.fromEntries(more.map(([field, value, from]) => [field, from?.isValid(i) ? value(from.get(i), labels) : null])),
  }));
}

// The value of a column that only some models give, by what it holds.
const values = {
  number: (v) => v,
  numbers: (v) => Array.from(v),
  classes: (v, labels) => Array.from(v, (c) => labels[c]),
};

// nanoseconds are a column of times as they are: Arrow's own reader makes
// milliseconds of them.
function nanoseconds(vector) {
  return vector.data.flatMap((d) => Array.from({ length: d.length }, (_, i) => (d.getValid(i) ? d.values[i] : null)));
}

const castagnoli = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0x82f63b78 : n >>> 1;
  return n;
});

// crc is CRC-32C, as the header Eusn-Crc has it.
export function crc(bytes) {
  let c = 0xffffffff;
  for (const b of bytes) c = castagnoli[(c ^ b) & 0xff] ^ (c >>> 8);
  return ((c ^ 0xffffffff) >>> 0).toString(16).padStart(8, "0");
}

// A time as labels have it: a Date, or a bigint in ns since 1970.
function rfc3339(t) {
  if (typeof t !== "bigint") return t.toISOString();
  const second = t / 1000000000n - (t % 1000000000n < 0n ? 1n : 0n);
  const rest = String(t - second * 1000000000n).padStart(9, "0");
  return new Date(Number(second) * 1000).toISOString().replace(".000Z", `.${rest}Z`);
}

// encodeLabel makes the body of a label; internal/labels/doc.go has its fields.
export function encodeLabel({ stream, from, to, seq, row, label, withdrawn, who, when = new Date() }) {
  if (!stream || !who) throw new Error("a label needs stream and who");
  if (!label === !withdrawn) throw new Error("a label needs label, or withdrawn: true");
  const what = { stream };
  if (seq !== undefined) {
    if (!(BigInt(seq) > 0n) || row === undefined || from !== undefined || to !== undefined) throw new Error("a label of a sequence needs seq and row, and no times");
  } else {
    if (from === undefined || to === undefined) throw new Error("a label needs from and to, or seq and row");
    Object.assign(what, { from: rfc3339(from), to: rfc3339(to) });
  }
  Object.assign(what, withdrawn ? { withdrawn: true } : { label }, { who, when: rfc3339(when) });
  const text = JSON.stringify(what);
  // JSON's numbers are wider than JavaScript's.
  return seq === undefined ? text : `${text.slice(0, -1)},"seq":${BigInt(seq)},"row":${row}}`;
}
