// A server of Modbus TCP: modbus-serial. Lines on stdin: samples as a list of [x, y].
// Each request of unit 3 for the holding registers 100 to 103 takes the next one, as two
// float32 with the low word first; while there is none, the device is busy (exception
// 6). On stdout: "at ADDRESS", and "taken N" after the Nth.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const { ServerTCP } = createRequire(import.meta.url)("modbus-serial");
const samples = [];
let taken = 0;

function registers(at, count, unit) {
  if (unit !== 3 || at !== 100 || count !== 4) throw { modbusErrorCode: 2 };
  if (samples.length === 0) throw { modbusErrorCode: 6 };
  const bytes = Buffer.alloc(8);
  samples.shift().forEach((x, i) => bytes.writeFloatBE(x, 4 * i));
  console.log("taken", ++taken);
  return [2, 0, 6, 4].map((i) => bytes.readUInt16BE(i));
}

// The port as a text: the number 0 would be the usual port.
const server = new ServerTCP({ getMultipleHoldingRegisters: registers }, { host: "127.0.0.1", port: "0" });
server.on("initialized", () => console.log("at", `127.0.0.1:${server._server.address().port}`));
for await (const line of createInterface({ input: process.stdin })) samples.push(...JSON.parse(line));
process.exit(0);
