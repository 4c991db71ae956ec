// Checks dashboards with the types of Grafana's own package @grafana/schema, which
// are generated from its schemas:
//
//     npm ci --prefix tools/grafana
//     node tools/grafana/check.mjs configs/grafana/*.json
//
// A dashboard is written into a program of TypeScript as a literal, so that a key
// that Grafana does not know is found, too. The schemas leave open what a panel's
// options and custom fields are, so those of each kind of panel are checked with
// that kind's own types.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const here = dirname(fileURLToPath(import.meta.url));
const kinds = { stat: ["stat/panelcfg/x/StatPanelCfg", "never"], timeseries: ["timeseries/panelcfg/x/TimeSeriesPanelCfg", "FieldConfig"] };

// program is the text of a program that is right if the dashboard is.
function program(dashboard) {
  let text = `import type { Dashboard, RowPanel, Panel } from "@grafana/schema";\n`;
  for (const [kind, [path]] of Object.entries(kinds)) text += `import type * as ${kind} from "@grafana/schema/dist/esm/raw/composable/${path}_types.gen";\n`;
  // Enumerations are written as their values in JSON.
  text += "type JSONOf<T> = T extends string ? `${T}` : T extends number | boolean | null | undefined ? T : T extends (infer E)[] ? JSONOf<E>[] : T extends object ? { [K in keyof T]: JSONOf<T[K]> } : T;\n";
  const { panels, ...rest } = dashboard;
  // What a query holds is its data source's matter, and open in the schemas.
  rest.annotations = { list: rest.annotations.list.map(({ target, ...a }) => a) };
  text += `export const dashboard: JSONOf<Omit<Dashboard, "panels">> = ${JSON.stringify(rest, null, 1)};\n`;
  panels.forEach((panel, i) => {
    if (panel.type === "row") {
      text += `export const panel${i}: JSONOf<RowPanel> = ${JSON.stringify(panel, null, 1)};\n`;
      return;
    }
    if (!kinds[panel.type]) throw new Error(`panel ${i} is of type ${panel.type}: name its types in tools/grafana/check.mjs`);
    const custom = kinds[panel.type][1];
    text += `export const panel${i}: JSONOf<Panel> = ${JSON.stringify(panel, null, 1)};\n`;
    text += `export const options${i}: JSONOf<${panel.type}.Options> = ${JSON.stringify(panel.options, null, 1)};\n`;
    const fields = panel.fieldConfig.defaults.custom;
    if (fields) text += `export const fields${i}: JSONOf<${custom === "never" ? "never" : `${panel.type}.${custom}`}> = ${JSON.stringify(fields, null, 1)};\n`;
  });
  return text;
}

let wrong = 0;
const read = new Map(); // files of Grafana's and of TypeScript itself, which are the same for each dashboard
for (const file of process.argv.slice(2)) {
  const dashboard = JSON.parse(readFileSync(file, "utf8"));
  const name = join(here, "dashboard.ts"); // in memory alone
  const options = { strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, types: [] };
  const host = ts.createCompilerHost(options);
  const source = ts.createSourceFile(name, program(dashboard), ts.ScriptTarget.ES2022, true);
  const { getSourceFile, fileExists } = host;
  host.getSourceFile = (f, ...more) => {
    if (f === name) return source;
    if (!read.has(f)) read.set(f, getSourceFile(f, ...more));
    return read.get(f);
  };
  host.fileExists = (f) => f === name || fileExists(f);
  const found = ts.getPreEmitDiagnostics(ts.createProgram([name], options, host));
  for (const d of found) {
    const text = ts.flattenDiagnosticMessageText(d.messageText, "\n");
    const at = d.file && d.start !== undefined ? d.file.text.split("\n")[d.file.getLineAndCharacterOfPosition(d.start).line].trim() : "";
    console.error(`${file}: ${at}: ${text}`);
  }
  wrong += found.length;
  if (found.length === 0) console.log(`${file}: right, ${dashboard.panels.length} panels`);
}
process.exit(wrong > 0 ? 1 : 0);
