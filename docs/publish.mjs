// Publish samples from JavaScript and read the prediction back.
//
//     npm install apache-arrow @nats-io/transport-node @nats-io/jetstream
//     go run ./cmd/eusn-stream demo                                             # makes the model
//     go run ./cmd/eusn-stream run --model demo-data/machine.safetensors --port 4222
//     node docs/publish.mjs nats://127.0.0.1:4222 machine-7
import { tableFromArrays, tableFromIPC, tableToIPC } from "apache-arrow";
import { jetstream, DeliverPolicy } from "@nats-io/jetstream";
import { connect, headers } from "@nats-io/transport-node";

const [url = "nats://127.0.0.1:4222", key = "machine-7"] = process.argv.slice(2);
const nc = await connect({ servers: url });
const js = jetstream(nc);

// Predictions, from now on. The first message may be sent after this answers.
const out = await js.consumers.get("EUSN-OUT", { filter_subjects: "eusn.out.*", deliver_policy: DeliverPolicy.New });
const predictions = await out.consume();

// Four messages of 80 samples: a column per channel of the model, in any order.
// Each run counts from 1 again, as another incarnation; from the second on, the first
// prediction says so (flags 1, gap): what the run before still had to send is not known.
const incarnation = Date.now().toString();
for (let seq = 1; seq <= 4; seq++) {
  const channel = (phase) => Float32Array.from({ length: 80 }, (_, i) => Math.sin((80 * seq + i) / 3 + phase) + Math.random() / 9);
  const batch = tableFromArrays({ horizontal: channel(0), vertical: channel(1.6), axial: channel(0.3) });
  const h = headers();
  h.set("Eusn-Seq", String(seq)); // a message sent again is counted once, a lost one is seen
  h.set("Eusn-Incarnation", incarnation);
  if (seq === 4) h.set("Eusn-End", "true"); // the sequence ends: predict
  // "stream": the IPC stream format. The acknowledgement says that the server has it;
  // the next message waits for it, so that a retry cannot overtake. Who has several
  // under way keeps to input.reorder (16) of a key, and to some hundreds in all.
  await js.publish(`sensors.${key}`, tableToIPC(batch, "stream"), { headers: h });
}

for await (const m of predictions) {
  const table = tableFromIPC(m.data);
  const labels = JSON.parse(table.schema.metadata.get("eusn.labels") ?? "[]");
  const mine = table.toArray().filter((row) => row.stream_id === key);
  for (const row of mine) console.log(row.stream_id, labels[row.class], "probability", row.probability, "flags", row.flags);
  if (mine.length > 0) break;
}
await nc.close();
