// An edge node of Sparkplug B with one device: sparkplug-payload and mqtt.
// Arguments: URL of the broker. Lines on stdin: "ms x y"; each becomes a DDATA. On
// stdout: "born" after each DBIRTH, "sent N" after the Nth line is on its way.
import { createInterface } from "node:readline";
import mqtt from "mqtt";
import payloads from "sparkplug-payload";

const codec = payloads.get("spBv1.0");
const topic = (type, device) => `spBv1.0/plant/${type}/edge${device ? "/" + device : ""}`;
let seq = 0, bdSeq = 0, last = [0, 0], born = false;
const next = () => seq++ % 256;
const death = () => codec.encodePayload({ timestamp: Date.now(), metrics: [{ name: "bdSeq", type: "UInt64", value: bdSeq }] });

const client = mqtt.connect(process.argv[2], {
  clientId: "edge", clean: true, protocolVersion: 4, reconnectPeriod: 50,
  will: { topic: topic("NDEATH"), payload: Buffer.from(death()), qos: 1, retain: false },
});
const send = (type, device, payload) => client.publish(topic(type, device), Buffer.from(codec.encodePayload(payload)), { qos: 0 });

function births() {
  seq = 0;
  send("NBIRTH", "", { timestamp: Date.now(), seq: next(), metrics: [
    { name: "bdSeq", type: "UInt64", value: bdSeq }, { name: "Node Control/Rebirth", type: "Boolean", value: false }] });
  send("DBIRTH", "press", { timestamp: Date.now(), seq: next(), metrics: [
    { name: "Axis/X", alias: 1, type: "Float", value: last[0] }, { name: "Serial", alias: 7, type: "String", value: "K-7" },
    { name: "Axis/Y", alias: 2, type: "Float", value: last[1] }] });
  born = true;
  console.log("born");
}

client.on("connect", () => client.subscribe(topic("NCMD"), { qos: 1 }, (err) => { if (err) throw err; births(); }));
client.on("close", () => { born = false; });
client.on("message", (_, message) => {
  const command = codec.decodePayload(message);
  if (command.metrics.some((m) => m.name === "Node Control/Rebirth" && m.value)) births();
});

let n = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const [ms, x, y] = line.split(" ").map(Number);
  while (!born) await new Promise((go) => setTimeout(go, 5));
  last = [x, y];
  send("DDATA", "press", { timestamp: ms, seq: next(), metrics: [
    { alias: 1, type: "Float", value: x, timestamp: ms }, { alias: 2, type: "Float", value: y, timestamp: ms }] });
  console.log("sent", ++n);
}
client.end();
