/**
 * Loads the model and translates, away from the page, which so stays alive.
 *
 * From the page: {type: "translate", job, text, settings}, {type: "attention", job, sentence}, {type: "stop"}.
 * To the page: {type: "progress", loaded, total}, {type: "ready", defaults, targets, languages, title}, {type: "failed", message};
 * of a job: "sentences" (how many), "partial" (text so far), "translated" (one sentence's translations), "done", "attention" (data), and
 * "refused" (message), which ends it.
 */

import { fetchFile, loadFiles } from "./loading.js";
import { Refusal, sentencesOf } from "./sentences.js";
import { Translator } from "./translator.js";
import * as ort from "./vendor/ort.js";
import { Tokenizer } from "./vendor/tokenizers.js";

/** Milliseconds of work after which the page may say something, such as stop. */
const TURN = 40;

const say = (type, content = {}) => postMessage({ type, ...content });
let current = 0;
let translated = [];

async function load() {
  const space = JSON.parse(new TextDecoder().decode(await fetchFile("space.json", () => {})));
  let loaded = 0;
  const report = (bytes) => say("progress", { loaded: (loaded += bytes), total: space.bytes });
  const { library, files } = await loadFiles((name) => fetchFile(name, report), space);
  ort.env.wasm.numThreads = 1; // more need headers that not every host sends
  ort.env.wasm.wasmBinary = library;
  const translator = await Translator.create(ort, Tokenizer, files);
  await translator.translate("."); // the first run is slower than all others
  say("ready", { defaults: translator.defaults, targets: translator.languages, languages: space.languages, title: space.title });
  return { translator, space };
}

async function translate({ job, text, settings }) {
  const { translator, space } = await loading;
  const sentences = sentencesOf(text, space.languages[0]);
  translated = [];
  say("sentences", { job, count: sentences.length });
  let turn = performance.now();
  for (const [index, sentence] of sentences.entries()) {
    const onText = async (partial) => {
      if (performance.now() - turn > TURN) {
        say("partial", { job, index, text: sentence.before + partial + sentence.after });
        await new Promise((resolve) => setTimeout(resolve));
        turn = performance.now();
      }
      return job === current;
    };
    const result = await translator.translate(sentence.text, settings, onText);
    if (job !== current) return;
    translated.push(result);
    const translations = result.translations.map(({ text: written, score }) => ({ text: written, score }));
    say("translated", { job, index, source: sentence.text, before: sentence.before, after: sentence.after, translations });
  }
  say("done", { job });
}

async function attention({ job, sentence }) {
  const { translator } = await loading;
  if (job === current && translated[sentence]) say("attention", { job, sentence, data: await translator.attention(translated[sentence]) });
}

async function answer(work, message) {
  try {
    await work(message);
  } catch (error) {
    if (!(error instanceof Refusal)) console.error(error);
    const sentence = error instanceof Refusal ? error.message : "This text could not be translated; please try a shorter one.";
    say("refused", { job: message.job, message: sentence });
  }
}

const loading = load();
loading.catch((error) => {
  console.error(error);
  say("failed", { message: "The translator could not be loaded; please see to the connection and load the page again." });
});
onmessage = ({ data }) => {
  if (data.type === "stop") current = 0;
  if (data.type === "translate") {
    current = data.job;
    answer(translate, data);
  }
  if (data.type === "attention") answer(attention, data);
};
