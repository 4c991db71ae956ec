// A plant as a server of OPC UA: node-opcua-server. Argument, as JSON: pumps, hz (changes per
// second), extra (variables that never change). On stdout: "at URL". Pumps are the objects Hall/Pump 1
// and so on, each with three variables and a text; Hall/Oven is a machine of another kind. The address
// space has a loop, a variable without a value, a list, and an object with two places. A line on stdin
// breaks the first pump.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const require = createRequire(import.meta.url);
const { OPCUAServer } = require("node-opcua-server");
const { OPCUACertificateManager } = require("node-opcua-certificate-manager");
const { Variant, DataType } = require("node-opcua-variant");
const { StatusCodes } = require("node-opcua-status-code");

const { pumps, hz, extra = 0, port = 0 } = JSON.parse(process.argv[2]);
const certificates = new OPCUACertificateManager({ rootFolder: mkdtempSync(join(tmpdir(), "opcua-")), automaticallyAcceptUnknownCertificate: true });
const server = new OPCUAServer({ port, host: "127.0.0.1", hostname: "127.0.0.1", serverCertificateManager: certificates, userCertificateManager: certificates });
await server.initialize();
const space = server.engine.addressSpace, own = space.getOwnNamespace();
const hall = own.addFolder(space.rootFolder.objects, { browseName: "Hall" });
const variable = (object, name, dataType = "Double", more = {}) => own.addVariable({ componentOf: object, browseName: name, nodeId: `s=${object.browseName.name}.${name}`, dataType, minimumSamplingInterval: 0, ...more });
const machines = [];
function machine(name, channels) {
  const object = own.addObject({ organizedBy: hall, browseName: name });
  machines.push({ phase: 7 * machines.length, variables: channels.map((c) => variable(object, c)) });
  variable(object, "Serial", "String").setValueFromSource(new Variant({ dataType: DataType.String, value: name }));
  return object;
}
for (let i = 1; i <= pumps; i++) machine(`Pump ${i}`, ["Current", "Pressure", "Flow"]);
const oven = machine("Oven", ["Temperature", "Power"]);
oven.addReference({ referenceType: "Organizes", nodeId: hall }); // a loop
own.addFolder(space.rootFolder.objects, { browseName: "View" }).addReference({ referenceType: "Organizes", nodeId: oven });
variable(hall, "Waiting");
variable(hall, "List", "Double", { valueRank: 1 }).setValueFromSource(new Variant({ dataType: DataType.Double, arrayType: 1, value: new Float64Array(3) }));
if (extra > 0) {
  const store = own.addFolder(space.rootFolder.objects, { browseName: "Store" });
  for (let i = 0, box; i < extra; i++) {
    if (i % 100 === 0) box = own.addObject({ organizedBy: store, browseName: `Box${i / 100}` });
    own.addVariable({ componentOf: box, browseName: `V${i % 100}`, nodeId: `i=${100000 + i}`, dataType: "Int32", value: { dataType: DataType.Int32, value: i } });
  }
}

let broken = false;
function step(n) {
  const at = new Date((n * 1000) / hz);
  machines.forEach(({ phase, variables }, m) => variables.forEach((v, c) => {
    let value = 10 * c + Math.sin((n + phase) * (0.3 + 0.2 * c)) + 0.2 * (Math.random() - 0.5);
    if (broken && m === 0) value += 4 * (Math.random() - 0.5);
    v.setValueFromSource(new Variant({ dataType: DataType.Double, value }), StatusCodes.Good, at);
  }));
}
let n = Math.floor((Date.now() * hz) / 1000);
step(n);
await server.start();
console.log("at", `opc.tcp://127.0.0.1:${server.endpoints[0].port}`);
setInterval(() => { // on a slow machine steps are left out, so that the server answers
  const end = Math.floor((Date.now() * hz) / 1000);
  for (n = Math.max(n, end - 10); n < end;) step(++n);
}, 10);
for await (const line of createInterface({ input: process.stdin })) broken = true;
await server.shutdown(0);
process.exit(0);
