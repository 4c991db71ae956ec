// Checks docs/asyncapi.json with AsyncAPI's own parser:
//
//     npm ci --prefix tools/asyncapi
//     node tools/asyncapi/check.mjs docs/asyncapi.json
import { readFile } from "node:fs/promises";
import { Parser } from "@asyncapi/parser";

const { document, diagnostics } = await new Parser().parse(await readFile(process.argv[2], "utf8"));
const errors = diagnostics.filter((d) => d.severity < 2); // errors and warnings
for (const d of errors) console.error(`${d.path.join(".")}: ${d.message} (${d.code})`);
if (!document || errors.length > 0) process.exit(1);
console.log(`${document.version()}: ${document.allChannels().length} channels, ${document.allMessages().length} messages, ${document.allOperations().length} operations`);
