// Run by TestGatewayRunNode (internal/cli/live): devices that send the lines which come
// on standard input, each in order, with QoS 1 and a session, and print how many the
// broker has acknowledged. Half of them speak MQTT 3.1.1, the others MQTT 5.
import { createInterface } from "node:readline";
import { connect, Store } from "mqtt";

const url = process.argv[2], underWay = 10;
// Marking is a store that marks what is sent again (DUP), as MQTT wants it and this
// client does not by itself: without the mark the gateway cannot tell a repeat.
class Marking extends Store {
  createStream() {
    for (const packet of this._inflights.values()) packet.dup = true;
    return super.createStream();
  }
}

let acked = 0, failed = 0;
const refusals = [];

// device sends lines, with at most underWay of them without an acknowledgement.
function device(id, topic, lines) {
  const v5 = id % 2 === 1;
  const client = connect(url, {
    clientId: `node${id}`, clean: false, protocolVersion: v5 ? 5 : 4, reconnectPeriod: 50, keepalive: 5, outgoingStore: new Marking(),
    properties: v5 ? { sessionExpiryInterval: 3600 } : undefined,
  });
  client.on("error", () => {}); // it connects again
  return new Promise((done) => {
    let next = 0, answered = 0;
    const more = () => {
      while (next < lines.length && next - answered < underWay)
        client.publish(topic, lines[next++], { qos: 1 }, (err) => {
          if (err) refusals.push(String(err)), failed++;
          else acked++;
          if (++answered === lines.length) client.end(false, {}, done);
          else more();
        });
    };
    client.once("connect", more);
  });
}

let id = 0;
const all = [];
for await (const line of createInterface({ input: process.stdin })) {
  const { topic, lines } = JSON.parse(line);
  all.push(device(id++, topic, lines));
}
const told = setInterval(() => console.log(JSON.stringify({ acked, failed })), 20);
await Promise.all(all);
clearInterval(told);
console.log(JSON.stringify({ acked, failed, refusals: refusals.slice(0, 3), done: true }));
