// Run by TestNodeReadout (integration/node_test.go): prints what only some messages have of
// each prediction, in the messages on standard input, one a line, as base64.
import { readFileSync } from "node:fs";
import { decodePredictions } from "../messages.js";

const messages = readFileSync(0, "utf8").trim().split("\n");
console.log(JSON.stringify(messages.flatMap((m) => decodePredictions(Buffer.from(m, "base64")).map((p) =>
  [p.readout, p.set, p.novelty, p.noveltyP, p.change, p.value, p.low, p.high, p.inputs]))));
