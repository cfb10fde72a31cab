/**
 * The page's translator under node, for the check of a Space before it is published:
 *     node translate.mjs FOLDER < REQUEST
 * FOLDER is a Space's. The request on standard input is JSON, [[sentence, settings], ...]; the answer on standard output is the JSON list of
 * what the translator gives for each of them, and the seconds of processor time that it took.
 */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const folder = resolve(process.argv[2]);
const load = (name) => import(pathToFileURL(`${folder}/${name}`));
const [{ Translator }, { loadFiles }, { Tokenizer }, ort] = await Promise.all(
  ["translator.js", "loading.js", "vendor/tokenizers.js", "vendor/ort.js"].map(load),
);

let request = "";
for await (const chunk of process.stdin) request += chunk;

const space = JSON.parse(await readFile(`${folder}/space.json`, "utf-8"));
const { library, files } = await loadFiles((name) => readFile(`${folder}/${name}`), space);
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmBinary = library;
const translator = await Translator.create(ort, Tokenizer, files);
const answers = [];
for (const [sentence, settings] of JSON.parse(request)) {
  const before = process.cpuUsage();
  const { source, translations } = await translator.translate(sentence, settings);
  const { user, system } = process.cpuUsage(before);
  answers.push({ source, translations, seconds: (user + system) / 1e6 });
}
process.stdout.write(JSON.stringify(answers));
