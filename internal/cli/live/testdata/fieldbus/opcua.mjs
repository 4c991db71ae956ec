// A server of OPC UA with two variables: node-opcua-server. Lines on stdin: "ms x y";
// each sets both, at that source time. On stdout: "at URL", then "sent N" after line N.
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

const certificates = new OPCUACertificateManager({ rootFolder: mkdtempSync(join(tmpdir(), "opcua-")), automaticallyAcceptUnknownCertificate: true });
const server = new OPCUAServer({ port: Number(process.argv[2] ?? 0), host: "127.0.0.1", hostname: "127.0.0.1", serverCertificateManager: certificates, userCertificateManager: certificates });
await server.initialize();
const space = server.engine.addressSpace, own = space.getOwnNamespace();
const device = own.addObject({ organizedBy: space.rootFolder.objects, browseName: "Press" });
const variables = ["X", "Y"].map((name) => own.addVariable({ componentOf: device, browseName: name, nodeId: `s=Press.${name}`, dataType: "Float", minimumSamplingInterval: 0 }));
const set = (ms, values) => variables.forEach((v, i) => v.setValueFromSource(new Variant({ dataType: DataType.Float, value: values[i] }), StatusCodes.Good, new Date(ms)));
set(1, [0, 0]);
await server.start();
console.log("at", `opc.tcp://127.0.0.1:${server.endpoints[0].port}`, own.index);

let n = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const [ms, ...values] = line.split(" ").map(Number);
  set(ms, values);
  console.log("sent", ++n);
  await new Promise((go) => setTimeout(go, 5));
}
await server.shutdown(0);
process.exit(0);
