// Checks manifests with what the package kubernetes-models makes of Kubernetes' own
// description of its objects (OpenAPI): the validators say what is missing or of another
// form, and the types of TypeScript which keys do not exist.
//
//     npm ci --prefix tools/kubernetes
//     node tools/kubernetes/check.mjs FILE...
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { parseAllDocuments } from "yaml";

const here = dirname(fileURLToPath(import.meta.url));
let wrong = 0, right = 0;
function fault(file, text) {
  wrong++;
  console.error(`${file}: ${text}`);
}

// All objects are the literals of one program, which is right if they are.
let program = "";
const lines = []; // file of each line of the program
function line(file, text) {
  for (const l of text.split("\n")) {
    program += l + "\n";
    lines.push([file, l.trim()]);
  }
}

for (const file of process.argv.slice(2)) {
  for (const document of parseAllDocuments(readFileSync(file, "utf8"), { strict: true, uniqueKeys: true })) {
    for (const e of document.errors) fault(file, e.message);
    const object = document.toJS();
    if (!object?.apiVersion || !object.kind) {
      fault(file, "an object has no apiVersion and kind");
      continue;
    }
    // The names of Kubernetes' groups have no slash, and apps is a folder of its own.
    const module = `kubernetes-models/${object.apiVersion}`;
    const kind = (await import(module).catch(() => ({})))[object.kind];
    if (!kind) {
      fault(file, `there is no ${object.kind} in ${object.apiVersion}`);
      continue;
    }
    try {
      new kind(object).validate();
    } catch (e) {
      fault(file, `${object.kind} ${object.metadata?.name}: ${e.message}`);
    }
    const n = right++;
    line(file, `import { I${object.kind} as T${n} } from "${module}";\nconst o${n}: T${n} = ${JSON.stringify(object, null, 1)};\nvoid o${n};`);
  }
}

const name = join(here, "manifests.ts"); // in memory alone
const options = { strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, types: [] };
const host = ts.createCompilerHost(options);
const source = ts.createSourceFile(name, program, ts.ScriptTarget.ES2022, true);
const { getSourceFile, fileExists } = host;
host.getSourceFile = (f, ...more) => (f === name ? source : getSourceFile.call(host, f, ...more));
host.fileExists = (f) => f === name || fileExists.call(host, f);
for (const d of ts.getPreEmitDiagnostics(ts.createProgram([name], options, host))) {
  const text = ts.flattenDiagnosticMessageText(d.messageText, "\n");
  const [file, at] = d.file === source ? lines[source.getLineAndCharacterOfPosition(d.start).line] : ["Kubernetes' types", d.file?.fileName ?? ""];
  fault(file, `${at}: ${text}`);
}
if (wrong === 0) console.log(`${right} objects are right`);
process.exit(wrong > 0 ? 1 : 0);
