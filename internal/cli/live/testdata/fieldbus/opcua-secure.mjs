// A server of OPC UA that wants a login, and trusts some certificates: node-opcua-server.
// Argument, as JSON: dir (of its own certificate and of those that it trusts), port,
// trust (files of certificates of clients), users (those that may log in). On stdout: "at
// URL NAMESPACE", and "certificate FILE" of its own. Lines on stdin, as JSON: lists of
// values, {name, type, value, status, ms}, set at once.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const require = createRequire(import.meta.url);
const { OPCUAServer } = require("node-opcua-server");
const { OPCUACertificateManager } = require("node-opcua-certificate-manager");
const { Variant, DataType, VariantArrayType } = require("node-opcua-variant");
const { StatusCodes } = require("node-opcua-status-code");

const o = JSON.parse(process.argv[2]);
async function manager(name, trusted) {
  const m = new OPCUACertificateManager({ rootFolder: join(o.dir, name), automaticallyAcceptUnknownCertificate: false });
  await m.initialize();
  for (const file of trusted) await m.trustCertificate(readFileSync(file));
  return m;
}
const server = new OPCUAServer({
  port: o.port, host: "127.0.0.1", hostname: "127.0.0.1", allowAnonymous: false,
  serverCertificateManager: await manager("clients", o.trust), userCertificateManager: await manager("users", o.users),
  userManager: { isValidUser: (name, password) => name === "gateway" && password === "secret" },
});
await server.initialize();
const space = server.engine.addressSpace, own = space.getOwnNamespace();
const device = own.addObject({ organizedBy: space.rootFolder.objects, browseName: "Press", nodeId: "s=Press" });
const variables = Object.fromEntries(["X", "Y"].map((name) => [name, own.addVariable({ componentOf: device, browseName: name, nodeId: `s=Press.${name}`, dataType: "BaseDataType", valueRank: -2, minimumSamplingInterval: 0 })]));
function set({ name, type, value, status, ms }) {
  if (type === "DateTime") value = new Date(value);
  const arrayType = Array.isArray(value) ? VariantArrayType.Array : VariantArrayType.Scalar;
  variables[name].setValueFromSource(new Variant({ dataType: DataType[type ?? "Float"], arrayType, value }), StatusCodes[status ?? "Good"], new Date(ms));
}
for (const name of ["X", "Y"]) set({ name, value: 0, ms: 1 });
await server.start();
console.log("certificate", server.certificateFile);
console.log("at", `opc.tcp://127.0.0.1:${server.endpoints[0].port}`, own.index);

for await (const line of createInterface({ input: process.stdin })) JSON.parse(line).forEach(set);
await server.shutdown(0);
process.exit(0);
