// Run by TestNodeReadout (integration/node_test.go): prints the readouts and the novelty of the
// predictions in each message, one message a line, as base64, on standard input.
import { readFileSync } from "node:fs";
import { decodePredictions } from "../messages.js";

const messages = readFileSync(0, "utf8").trim().split("\n");
console.log(JSON.stringify(messages.flatMap((m) => {
  const rows = decodePredictions(Buffer.from(m, "base64"));
  return [rows.map((p) => p.readout), rows.map((p) => [p.novelty, p.noveltyP])];
})));
