/** The page: what is typed goes to the worker, and what comes back is shown. Text only ever becomes text nodes, never markup. */

import { LONGEST_TEXT } from "./sentences.js";

const get = (id) => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const show = (element, isShown) => {
  element.hidden = !isShown;
};
const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const ask = (type, content = {}) => worker.postMessage({ type, ...content });

/** Every translation has a number, so that nothing late is taken for something new. */
let job = 0;
let parts = [];
let started = 0;
let isReady = false;
let isRunning = false;

function settings() {
  const number = (id) => Number(get(id).value);
  return { beams: number("beams"), alpha: number("alpha"), wanted: number("wanted"), language: get("language").value || undefined };
}

function translate() {
  if (!isReady) return;
  job += 1;
  parts = [];
  started = performance.now();
  get("translation").textContent = "";
  get("sentences").replaceChildren();
  for (const id of ["results", "looking", "refusal"]) show(get(id), false);
  run(true);
  get("status").textContent = "Translating …";
  ask("translate", { job, text: get("text").value, settings: settings() });
}

function run(running) {
  isRunning = running;
  show(get("stop"), running);
  get("copy").disabled = running || !parts.length;
  get("translation").classList.toggle("unfinished", running);
}

function stop() {
  ask("stop");
  job += 1;
  run(false);
  get("status").textContent = `Stopped after ${counted(parts.length)}.`;
}

/** A language's English name. */
function nameOf(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code; // no code of a language
  }
}

const counted = (number) => `${number} ${number === 1 ? "sentence" : "sentences"}`;

function refuse(message) {
  get("refusal").textContent = message;
  show(get("refusal"), true);
  get("status").textContent = "";
  run(false);
}

/** The best translations of one sentence, and a button for its attention. */
function sentenceCard({ index, source, translations }) {
  const rows = translations.map(({ text, score }) => {
    const written = make("span", { textContent: text || "(nothing)", dir: "auto" });
    const value = make("span", { className: "score", textContent: score.toFixed(3), title: "Score" });
    return make("li", {}, written, value);
  });
  const button = make("button", { type: "button", textContent: "Attention", onclick: () => look(index) });
  button.setAttribute("aria-label", `Show where attention looks in sentence ${index + 1}`);
  const head = make("div", { className: "sentence-head" }, make("p", { textContent: source, dir: "auto" }), button);
  return make("article", { className: "sentence" }, head, make("ol", {}, ...rows));
}

function look(sentence) {
  show(get("refusal"), false);
  ask("attention", { job, sentence });
}

const on = {
  progress({ loaded, total }) {
    get("progress").value = Math.min(1, loaded / total);
    get("loaded").textContent = `${megabytes(loaded)} of ${megabytes(total)} MB`;
  },
  ready({ defaults, targets, languages, title }) {
    isReady = true;
    const names = languages.map(nameOf);
    document.title = get("title").textContent = names.join(" to ") || title;
    names.forEach((name, place) => {
      get(["from", "to"][place]).textContent = name;
    });
    show(get("loading"), false);
    get("translate").disabled = false;
    get("beams").value = defaults.beams;
    get("alpha").value = defaults.alpha;
    get("wanted").value = defaults.beams;
    get("language").append(...targets.map((language) => make("option", { value: language, textContent: nameOf(language) })));
    show(get("languages"), targets.length > 0);
    showSettings();
    get("status").textContent = "Ready.";
  },
  failed({ message }) {
    show(get("loading"), false);
    refuse(message);
  },
  sentences({ count }) {
    show(get("results"), true);
    get("translation").dataset.count = count;
  },
  partial({ text }) {
    get("translation").textContent = parts.join("") + text;
  },
  translated(result) {
    parts.push(result.before + result.translations[0].text + result.after);
    get("translation").textContent = parts.join("");
    get("sentences").append(sentenceCard(result));
    const count = Number(get("translation").dataset.count);
    if (count > 1) get("status").textContent = `Sentence ${parts.length} of ${count}`;
  },
  done() {
    run(false);
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    get("status").textContent = `${counted(parts.length)} in ${seconds} s`;
    if (parts.length === 1) look(0);
  },
  attention({ sentence, data }) {
    show(get("looking"), true);
    get("looked").textContent = `Sentence ${sentence + 1} of ${parts.length}.`;
    globalThis.showAttention(get("attention"), data);
  },
  refused({ message }) {
    refuse(message);
  },
};

worker.onmessage = ({ data }) => {
  if (data.job === undefined || data.job === job) on[data.type](data);
};
worker.onerror = () => refuse("The translator has stopped; please load the page again.");

function showSettings() {
  get("wanted").max = get("beams").value;
  for (const id of ["beams", "alpha", "wanted"]) get(`${id}-shown`).textContent = get(id).value;
}

function showCount() {
  const { length } = get("text").value;
  get("count").textContent = length ? `${length.toLocaleString("en")} / ${LONGEST_TEXT.toLocaleString("en")}` : "";
}

get("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
get("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && isRunning) stop();
});
get("stop").addEventListener("click", stop);
get("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(get("translation").textContent);
  get("status").textContent = "Copied.";
});
get("text").addEventListener("input", showCount);
for (const id of ["beams", "alpha", "wanted"]) get(id).addEventListener("input", showSettings);
