/* Shows where the heads of a translator look, in plain JavaScript and without any other file but attention.css.

   showAttention(element, data, {theme}) fills `element` and returns a view: `ready` is a promise that all is drawn, and
   `weight(kind, layer, head, query, key)` a number from 0 to 1. `theme` is "system" (if left out), "light" or "dark".

   data = {
     candidates: [{                       translations of one source, best first
       source, target, read: [text],      units; target[t] is written after read[0..t]
       score: number | null,              what the search ranked it by
       maps: {encoder, decoder, cross},   any may be absent; see below
       probabilities: [number],           of each unit of `target`; may be absent
       source_text, target_text: text,    may be absent
       words: {source, target, read, maps, probabilities},     the same by words; may be absent
     }],
     level: "word" | "subword",           which one is shown first, where there are both
     remarks: [text],                     sentences at the foot; may be absent
   }
   A map is {layers, heads, queries, keys, weights}; weights are bytes round(255 * w) in the order [layer, head, query, key], as base64,
   or as base64 of a zlib stream where the map says `encoding: "deflate"`, or as a Uint8Array.

   Text only ever becomes text nodes and attributes' values, never markup. */
(() => {
"use strict";

const KINDS = {
  cross: {name: "Cross", keys: "source", queries: "target", keysTitle: "Source", queriesTitle: "Translation",
    about: "Each word of the translation looks at the words of the source."},
  encoder: {name: "Encoder", keys: "source", queries: "source", keysTitle: "Source, looked at", queriesTitle: "Source, looking",
    about: "Each word of the source looks at the words of the source."},
  decoder: {name: "Decoder", keys: "read", queries: "target", keysTitle: "Read so far", queriesTitle: "Translation",
    about: "Each word of the translation looks at what was written before it."},
};
const VIEWS = {lines: "Lines", text: "Text", matrix: "Matrix"};
const THEMES = ["system", "light", "dark"];
const KEYS = [
  ["Tab", "goes from control to control; arrow keys move inside a group, a column of words, the heads or the matrix"],
  ["Enter or space", "on a word keeps it chosen; on a head shows it alone (Enter) or adds and removes it (space)"],
  ["Escape", "lets the chosen word go, and ends stepping"],
  [". and ,", "step forward and back through the translation"],
  ["v", "next view: lines, text, matrix"],
  ["k", "next kind of attention"],
  ["l", "words or subwords"],
  ["n", "next candidate"],
  ["t", "theme: the system's, light, dark"],
];
const COLOURS = 8;       // of heads, in attention.css; they repeat after these
const LONG = 60;         // units from which the text is shown first, and weights are coloured by their square roots
const MOST_LINES = 30000;
const THUMBNAIL = 48;    // pixels of a thumbnail's side, at most
const PAUSE = 800;       // milliseconds between the steps of "Play"

function showAttention(element, data, {theme = "system"} = {}) {
  const view = new AttentionView(element, data, theme);
  return {get ready() { return view.ready; }, weight: (...place) => view.weight(...place)};
}

class AttentionView {
  constructor(element, data, theme) {
    if (!data?.candidates?.length) throw new TypeError("showAttention needs data.candidates, with one candidate or more");
    this.data = data;
    this.decoded = new Map();
    this.state = {
      candidate: 0, level: data.candidates[0].words && data.level !== "subword" ? "word" : "subword", kind: null, view: null, picked: [],
      several: false, threshold: 5, step: null, theme,
    };
    this.hovered = this.focused = this.pinned = null;
    this.cell = null;
    this.root = make("div", {class: "attention-view"});
    element.replaceChildren(this.root);
    this.build();
    this.setTheme(theme);
    this.root.addEventListener("keydown", event => this.shortcut(event));
    new ResizeObserver(() => this.schedule("layout")).observe(this.stage);
    element.endAttention?.(); // an earlier view of this element hears of nothing any more, and its weights can be freed
    const ended = new AbortController();
    element.endAttention = () => ended.abort();
    const {signal} = ended;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.schedule("colours"), {signal});
    addEventListener("beforeprint", () => this.print(true), {signal});
    addEventListener("afterprint", () => this.print(false), {signal});
    this.ready = this.open();
  }

  /* What is shown now */

  get unitsOf() {
    const candidate = this.data.candidates[this.state.candidate];
    return this.state.level === "word" && candidate.words ? candidate.words : candidate;
  }
  get kinds() { return Object.keys(KINDS).filter(kind => this.unitsOf.maps[kind]); }
  get sides() { const kind = KINDS[this.state.kind]; return {keys: this.unitsOf[kind.keys], queries: this.unitsOf[kind.queries]}; }
  get steps() { return this.state.kind === "encoder" ? 0 : this.unitsOf.target.length; }
  get active() {
    const stepped = this.state.step === null ? null : {side: "queries", index: this.state.step};
    return this.hovered ?? this.focused ?? this.pinned ?? stepped;
  }

  /** Decode the map that is to be shown, then draw all. */
  async open() {
    const {state} = this;
    if (!this.kinds.includes(state.kind)) state.kind = this.kinds[0];
    if (!state.kind) return this.fail("This model gave no attention weights.");
    const wanted = this.unitsOf.maps[state.kind];
    try {
      if (!this.decoded.has(wanted)) this.decoded.set(wanted, await decode(wanted));
    } catch (error) {
      return this.fail(`The weights cannot be read (${error.message}).`);
    }
    if (wanted !== this.unitsOf.maps[state.kind]) return undefined; // something else was chosen meanwhile
    this.map = this.decoded.get(wanted);
    this.hovered = this.focused = this.pinned = this.cell = null;
    if (state.step !== null && state.step >= this.steps) state.step = null;
    state.picked = state.picked.filter(([layer, head]) => layer < this.map.layers && head < this.map.heads);
    if (!state.picked.length) state.picked = range(this.map.heads).map(head => [this.map.layers - 1, head]);
    state.view ??= Math.max(this.map.queries, this.map.keys) > LONG ? "text" : "lines";
    this.fillControls();
    this.fillWords();
    this.fillThumbnails();
    this.schedule("colours");
    const before = this.drawn;
    return new Promise(done => { this.drawn = () => { before?.(); done(); }; });
  }

  fail(sentence) {
    this.root.replaceChildren(make("p", {class: "failed", role: "alert"}, sentence));
  }

  weight(kind, layer, head, query, key) {
    const map = this.decoded.get(this.unitsOf.maps[kind]);
    return map.bytes[((layer * map.heads + head) * map.queries + query) * map.keys + key] / 255;
  }

  /** Weights of one word, `[picked head][other word]`, from 0 to 255. */
  weightsOf({side, index}) {
    const {bytes, heads, queries, keys} = this.map;
    return this.state.picked.map(([layer, head]) => {
      const start = (layer * heads + head) * queries * keys;
      if (side === "queries") return bytes.subarray(start + index * keys, start + (index + 1) * keys);
      return Uint8Array.from({length: queries}, (_, query) => this.isWritten(query) ? bytes[start + query * keys + index] : 0);
    });
  }

  isWritten(query) { return this.state.step === null || query <= this.state.step; }

  /* Building, once */

  build() {
    this.sourceText = make("p", {class: "source-text", dir: "auto"});
    this.themeButton = make("button", {type: "button", class: "quiet", onclick: () => this.setTheme(next(THEMES, this.state.theme))});
    this.candidates = make("div", {class: "candidates"});
    this.controls = make("div", {class: "controls"});
    this.says = make("p", {class: "says", role: "status", "aria-live": "polite"});
    this.legend = make("ul", {class: "legend", "aria-label": "Heads that are shown"});
    this.stage = make("div", {class: "stage"});
    this.overview = make("section", {class: "overview", "aria-label": "All heads"});
    this.stepping = make("div", {class: "stepping", role: "group", "aria-label": "Step through the translation"});
    this.tip = make("div", {class: "tip", hidden: "", "aria-hidden": "true"});
    this.columns = {keys: this.column("keys"), queries: this.column("queries")};
    this.canvas = make("canvas", {"aria-hidden": "true"});
    this.gap = make("div", {class: "gap"}, this.canvas);
    this.matrix = make("canvas", {class: "matrix", tabindex: "0", role: "application", "aria-roledescription": "matrix",
      onpointermove: event => this.hoverCell(event), onpointerleave: () => this.showCell(null),
      onkeydown: event => this.moveCell(event), onblur: () => this.showCell(null)});
    this.root.append(
      make("div", {class: "head"}, this.sourceText, this.themeButton),
      this.candidates, this.controls,
      make("div", {class: "body"},
        make("section", {class: "picture", "aria-label": "The chosen heads"}, this.says, this.legend, this.stepping, this.stage, this.tip),
        this.overview),
      this.foot());
  }

  column(side) {
    const turn = part => event => {
      const option = event.target.closest("[role=option]");
      if (option) this.chooseWord(part, {side, index: Number(option.dataset.index)});
    };
    return make("ol", {class: `column ${side}`, role: "listbox", "aria-orientation": "vertical",
      onpointerover: turn("hovered"), onpointerleave: () => this.chooseWord("hovered", null),
      onfocusin: turn("focused"), onfocusout: () => this.chooseWord("focused", null),
      onclick: event => this.pin(event.target.closest("[role=option]")),
      onkeydown: event => this.moveWord(event, side)});
  }

  foot() {
    const keys = make("dl", {}, ...KEYS.flatMap(([key, does]) => [make("dt", {}, key), make("dd", {}, does)]));
    return make("footer", {},
      ...(this.data.remarks ?? []).map(remark => make("p", {class: "remark"}, remark)),
      make("details", {}, make("summary", {}, "How to read this, and the keys"),
        make("p", {}, "A line joins a word with a word that it looks at; the thicker the line, the larger the weight. Each colour is a head. "
          + "What one word gives out is 100% for each head. Point at a word, or reach it with the keyboard, to see its lines alone; where "
          + "several heads are shown, the percentage beside a word is their mean, and the bar tells the share of each. The matrix has a row "
          + "for each word that looks. Weights are rounded to 1/255."), keys));
  }

  /* Controls, anew for each map */

  fillControls() {
    const {state} = this;
    const candidate = this.data.candidates[state.candidate];
    this.sourceText.textContent = candidate.source_text ?? "";
    this.root.classList.toggle("long", Math.max(candidate.source.length, candidate.target.length) > LONG);
    this.fillCandidates();
    const kinds = Object.fromEntries(this.kinds.map(kind => [kind, KINDS[kind].name]));
    const switches = [choice("Attention", kinds, state.kind, kind => this.choose({kind}))];
    if (candidate.words) {
      switches.push(choice("Units", {word: "Words", subword: "Subwords"}, state.level, level => this.choose({level})));
    }
    switches.push(choice("View", VIEWS, state.view, chosen => { state.view = chosen; this.showView(); }));
    this.atLeast = make("label", {class: "at-least"}, make("span", {}, "Lines from "), make("output", {}, `${state.threshold}%`),
      make("input", {type: "range", min: "1", max: "50", value: String(state.threshold), "aria-label": "Smallest weight drawn, in percent",
        oninput: event => this.setThreshold(Number(event.target.value))}));
    this.keepFocus(this.controls, [...switches, this.atLeast]);
    this.fillStepping();
  }

  /** Put new controls into the place of old ones; what had the focus has it again. */
  keepFocus(parent, children) {
    const focused = parent.contains(document.activeElement) ? [...parent.querySelectorAll("input, button")].indexOf(document.activeElement) : -1;
    const wasRadio = focused >= 0 && document.activeElement.type === "radio";
    const group = wasRadio ? document.activeElement.dataset.group : null;
    parent.replaceChildren(...children);
    if (wasRadio) parent.querySelector(`input[data-group="${group}"]:checked`)?.focus();
    else if (focused >= 0) parent.querySelectorAll("input, button")[focused]?.focus();
  }

  fillCandidates() {
    const {candidates} = this.data;
    const text = candidate => candidate.target_text ?? candidate.target.join(" ");
    if (candidates.length === 1) {
      this.candidates.replaceChildren(make("p", {class: "only", dir: "auto"}, text(candidates[0])));
      return;
    }
    const scores = Object.fromEntries(candidates.map((candidate, number) => [number, number]));
    const rows = choice("Translations, best first", scores, this.state.candidate, number => this.choose({candidate: Number(number)}), number => [
      make("span", {class: "rank", "aria-hidden": "true"}, String(number + 1)),
      make("span", {class: "translation", dir: "auto"}, text(candidates[number])),
      make("span", {class: "score"}, candidates[number].score == null ? "" : `score ${candidates[number].score.toFixed(2)}`)]);
    rows.classList.add("rows");
    this.keepFocus(this.candidates, [rows]);
  }

  fillStepping() {
    const {steps} = this;
    this.stepping.hidden = steps === 0;
    this.slider = make("input", {type: "range", min: "0", max: String(steps), value: "0", "aria-label": "Units written",
      oninput: event => this.setStep(Number(event.target.value) - 1)});
    this.stepName = make("output");
    this.playButton = make("button", {type: "button", onclick: () => this.play()});
    const button = (name, sign, does) => make("button", {type: "button", "aria-label": name, title: name, onclick: does}, sign);
    this.keepFocus(this.stepping, [button("Step back", "◀", () => this.stepBy(-1)), this.slider,
      button("Step forward", "▶", () => this.stepBy(1)), this.playButton, this.stepName]);
    this.tellStep();
  }

  choose(change) {
    if ("candidate" in change || "level" in change) this.state.step = null;
    if ("level" in change) this.state.view = null;
    this.stop();
    Object.assign(this.state, change);
    this.ready = this.open();
  }

  setThreshold(percent) {
    this.state.threshold = percent;
    this.atLeast.querySelector("output").textContent = `${percent}%`;
    this.schedule("draw");
  }

  setTheme(theme) {
    this.state.theme = theme;
    this.themeButton.textContent = `Theme: ${theme}`;
    const scheme = theme === "system" ? "light dark" : theme;
    this.root.style.colorScheme = scheme;
    const page = this.root.closest("[data-attention-page]");
    if (page) page.style.colorScheme = scheme;
    this.schedule("colours");
  }

  print(begins) {
    const before = this.state.theme;
    if (begins) { this.setTheme("light"); this.state.theme = before; this.render("colours"); } else this.setTheme(before);
  }

  /* Steps */

  setStep(step) {
    this.state.step = step < 0 ? null : Math.min(step, this.steps - 1);
    this.hovered = this.pinned = this.cell = null;
    this.tellStep();
    this.schedule("draw");
  }

  stepBy(count) {
    if (!this.steps) return;
    const {step} = this.state;
    if (step === null && count < 0) return;
    this.setStep(step === null ? 0 : step + count);
  }

  play() {
    if (this.timer) { this.stop(); return; }
    if (this.state.step === null || this.state.step === this.steps - 1) this.setStep(0);
    this.timer = setInterval(() => {
      if (!this.root.isConnected || this.state.step === null || this.state.step >= this.steps - 1) this.stop();
      else this.stepBy(1);
    }, PAUSE);
    this.tellStep();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    if (this.playButton) this.tellStep();
  }

  tellStep() {
    const {step} = this.state;
    this.playButton.textContent = this.timer ? "Pause" : "Play";
    this.slider.value = String(step === null ? 0 : step + 1);
    const {target, probabilities} = this.unitsOf;
    const name = step === null ? ["all written"]
      : [`${step + 1} of ${this.steps}: `, quoted(target[step]), probabilities ? `, probability ${percent(probabilities[step])}` : ""];
    this.stepName.replaceChildren(...name);
    this.slider.setAttribute("aria-valuetext", this.stepName.textContent);
  }

  /* Words */

  fillWords() {
    const {keys, queries} = this.sides;
    const kind = KINDS[this.state.kind];
    for (const [side, units, title, looks] of [["keys", keys, kind.keysTitle, "are looked at"], ["queries", queries, kind.queriesTitle, "look"]]) {
      const column = this.columns[side];
      column.setAttribute("aria-label", `${title}: units that ${looks}`);
      column.dir = direction(units.join(" "));
      column.replaceChildren(...units.map((unit, index) => make("li",
        {role: "option", "aria-selected": "false", "data-index": String(index), tabindex: index === 0 ? "0" : "-1", title: unit.length > 24 ? unit.slice(0, 400) : null},
        make("span", {class: "bar"}), make("bdi", {class: "name"}, visible(unit)), make("span", {class: "percent"}))));
    }
    this.words = {keys: [...this.columns.keys.children], queries: [...this.columns.queries.children]};
    this.stage.replaceChildren(
      make("h3", {class: "keys"}, kind.keysTitle), make("h3", {class: "queries"}, kind.queriesTitle),
      this.columns.keys, this.gap, this.columns.queries, make("div", {class: "scroll"}, this.matrix));
    this.showView();
  }

  showView() {
    this.stage.dataset.view = this.state.view;
    this.atLeast.hidden = this.state.view !== "lines";
    this.showCell(null);
    this.schedule("layout");
  }

  chooseWord(part, word) {
    if (this[part]?.side === word?.side && this[part]?.index === word?.index) return;
    this[part] = word;
    this.schedule("draw");
  }

  pin(option) {
    if (!option) return;
    const word = {side: option.parentNode.classList[1], index: Number(option.dataset.index)};
    const same = this.pinned?.side === word.side && this.pinned?.index === word.index;
    this.pinned = same ? null : word;
    option.focus({preventScroll: true});
    this.schedule("draw");
  }

  moveWord(event, side) {
    const option = event.target.closest("[role=option]");
    if (!option) return;
    const index = Number(option.dataset.index);
    const isText = this.state.view === "text";
    const forward = getComputedStyle(this.columns[side]).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const back = forward === "ArrowRight" ? "ArrowLeft" : "ArrowRight";
    const other = side === "keys" ? "queries" : "keys";
    const moves = {ArrowDown: isText ? [other, index] : [side, index + 1], ArrowUp: isText ? [other, index] : [side, index - 1],
      [forward]: isText ? [side, index + 1] : [other, index], [back]: isText ? [side, index - 1] : [other, index],
      Home: [side, 0], End: [side, Infinity]};
    if (event.key === "Enter" || event.key === " ") this.pin(option);
    else if (moves[event.key]) {
      const [to, place] = moves[event.key];
      this.focusWord(to, Math.max(0, Math.min(place, this.words[to].length - 1)));
    } else return;
    event.preventDefault();
  }

  focusWord(side, index) {
    for (const word of this.words[side]) word.tabIndex = -1;
    this.words[side][index].tabIndex = 0;
    this.hovered = null;
    this.words[side][index].focus();
  }

  shortcut(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const {state} = this;
    const does = {
      ".": () => this.stepBy(1), ",": () => this.stepBy(-1),
      v: () => { state.view = next(Object.keys(VIEWS), state.view); this.fillControls(); this.showView(); },
      k: () => this.choose({kind: next(this.kinds, state.kind)}),
      l: () => this.data.candidates[state.candidate].words && this.choose({level: next(["word", "subword"], state.level)}),
      n: () => this.choose({candidate: (state.candidate + 1) % this.data.candidates.length}),
      t: () => this.setTheme(next(THEMES, state.theme)),
      Escape: () => { this.stop(); this.hovered = this.focused = null; this.setStep(-1); },
    }[event.key];
    if (!does || event.defaultPrevented) return;
    does();
    event.preventDefault();
  }

  /* All heads */

  fillThumbnails() {
    const {layers, heads} = this.map;
    const focused = this.overview.contains(document.activeElement) ? document.activeElement.dataset.place : null;
    const several = make("input", {type: "checkbox", checked: this.state.several ? "" : null, onchange: event => { this.state.several = event.target.checked; }});
    this.thumbnails = range(layers).map(layer => range(heads).map(head => make("button",
      {type: "button", class: "thumbnail", "data-place": `${layer},${head}`, "aria-label": `Layer ${layer + 1}, head ${head + 1}`,
        title: `Layer ${layer + 1}, head ${head + 1}`, onclick: event => this.pick(layer, head, event.shiftKey || event.ctrlKey || event.metaKey)},
      make("canvas", {"aria-hidden": "true"}))));
    const rows = this.thumbnails.flatMap((row, layer) => [
      make("button", {type: "button", class: "row", "data-place": `${layer},-1`, "aria-label": `All heads of layer ${layer + 1}`,
        title: `All heads of layer ${layer + 1}`, onclick: () => this.pickLayer(layer)}, String(layer + 1)), ...row]);
    const grid = make("div", {class: "grid", role: "group", "aria-label": "Layers and heads", onkeydown: event => this.moveThumbnail(event)},
      make("span", {class: "corner", "aria-hidden": "true"}), ...range(heads).map(head => make("span", {class: "number", "aria-hidden": "true"}, String(head + 1))),
      ...rows);
    grid.style.setProperty("--heads", String(heads));
    this.overview.replaceChildren(
      make("h3", {}, "All heads"), make("label", {class: "several"}, several, " pick several"), grid,
      make("p", {class: "hint"}, "Rows are layers, columns are heads. A row’s number shows the whole layer."));
    this.thumbnails[0][0].tabIndex = 0;
    if (focused) this.overview.querySelector(`[data-place="${focused}"]`)?.focus();
  }

  pick(layer, head, adds) {
    const {state} = this;
    const others = state.picked.filter(([l, h]) => l !== layer || h !== head);
    if (!adds && !state.several) state.picked = [[layer, head]];
    else if (others.length < state.picked.length) state.picked = others.length ? others : state.picked;
    else state.picked = [...state.picked, [layer, head]];
    this.schedule("draw");
  }

  pickLayer(layer) {
    const all = range(this.map.heads).map(head => [layer, head]);
    const {picked, several} = this.state;
    this.state.picked = several ? [...picked.filter(([l]) => l !== layer), ...all] : all;
    this.schedule("draw");
  }

  moveThumbnail(event) {
    const place = event.target.dataset.place?.split(",").map(Number);
    if (!place) return;
    const [layer, head] = place;
    const to = {ArrowRight: [layer, head + 1], ArrowLeft: [layer, head - 1], ArrowDown: [layer + 1, head], ArrowUp: [layer - 1, head],
      Home: [layer, 0], End: [layer, this.map.heads - 1]}[event.key];
    if (to) this.overview.querySelector(`[data-place="${to[0]},${to[1]}"]`)?.focus();
    else if (event.key === " " && head >= 0) this.pick(layer, head, true);
    else return;
    event.preventDefault();
  }

  /* Drawing. Parts: "colours" (the theme), then "layout" (places of words), then "draw" (the rest) */

  schedule(part) {
    const order = ["draw", "layout", "colours"];
    this.waiting = !this.waiting || order.indexOf(part) > order.indexOf(this.waiting) ? part : this.waiting;
    this.frame ??= requestAnimationFrame(() => { this.frame = null; this.render(this.waiting); });
  }

  render(part) {
    this.waiting = null;
    if (!this.map || !this.words || !this.root.isConnected) return;
    if (part === "colours") {
      this.pickedShown = null;
      for (const word of Object.values(this.words).flat()) word.shown = null;
      this.readColours();
      this.drawThumbnails();
    }
    if (part !== "draw") this.measure();
    this.values = this.state.view === "matrix" ? this.meanMatrix() : null; // read by the sentence as well as by the matrix
    this.mark();
    if (this.state.view === "lines") this.drawLines();
    if (this.state.view === "matrix") this.drawMatrix();
    this.drawn?.();
    this.drawn = null;
  }

  readColours() {
    const probe = make("span", {hidden: ""});
    this.root.append(probe);
    const read = name => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number); };
    this.headColours = range(COLOURS).map(number => read(`head-${number + 1}`));
    this.ink = read("ink");
    this.faint = read("faint");
    this.background = read("surface");
    const stops = ["heat-0", "heat-1", "heat-2", "heat-3"].map(read);
    this.heat = range(256).map(value => {
      const place = Math.min(value / 255 * 3, 2.999), from = Math.floor(place);
      return stops[from].map((channel, i) => channel + (stops[from + 1][i] - channel) * (place - from));
    });
    probe.remove();
  }

  colour(number, alpha = 1) { return `rgb(${this.headColours[number % COLOURS].join(" ")} / ${alpha})`; }

  measure() {
    if (this.state.view !== "lines") return;
    const {top} = this.gap.getBoundingClientRect();
    this.middles = Object.fromEntries(Object.entries(this.words).map(([side, words]) => [side, words.map(word => {
      const box = word.getBoundingClientRect();
      return box.top - top + box.height / 2;
    })]));
    const height = Math.max(this.columns.keys.offsetHeight, this.columns.queries.offsetHeight);
    const scale = Math.min(devicePixelRatio || 1, 16000 / height);
    fit(this.canvas, this.gap.clientWidth, height, scale);
  }

  /** Everything but the canvases: shades and percentages of words, the sentence, the heads that are picked. */
  mark() {
    const {active, words, state} = this;
    const {picked} = state;
    const weights = active ? this.weightsOf(active) : [];
    const means = weights.length ? mean(weights) : null;
    const largest = means ? Math.max(0.1, means.reduce((a, b) => Math.max(a, b), 0) / 255) : 1; // is shaded most
    const other = active && (active.side === "keys" ? "queries" : "keys");
    for (const side of ["keys", "queries"]) {
      const isCut = side === "queries" || state.kind === "decoder";
      words[side].forEach((word, index) => {
        const isActive = active?.side === side && active.index === index;
        const isPinned = this.pinned?.side === side && this.pinned.index === index;
        const share = side === other && means[index] >= 255 / 200 ? means[index] / 255 : 0;
        this.markWord(word, {isActive, isPinned, isLater: isCut && !this.isWritten(index), share, shade: share / largest, bar: share ? this.shares(weights, index) : ""});
      });
    }
    const said = make("span", {}, ...this.sentence(means));
    if (said.textContent !== this.says.textContent) this.says.replaceChildren(said);
    const shown = `${state.view} ${picked.join(" ")}`;
    if (shown !== this.pickedShown) this.markPicked();
    this.pickedShown = shown;
  }

  /** Only what changed is touched: a hover leaves most words as they are. */
  markWord(word, {isActive, isPinned, isLater, share, shade, bar}) {
    const shown = `${isActive} ${isPinned} ${isLater} ${bar}`;
    if (word.shown === shown) return;
    word.shown = shown;
    word.className = [isActive && "active", isPinned && "pinned", isLater && "unwritten"].filter(Boolean).join(" ");
    word.setAttribute("aria-selected", String(isPinned));
    word.style.setProperty("--weight", shade.toFixed(3));
    word.children[0].style.background = bar;
    word.children[2].textContent = share ? percent(share) : "";
  }

  markPicked() {
    const {picked} = this.state;
    this.legend.replaceChildren(...this.legendItems());
    this.thumbnails.flat().forEach(thumbnail => {
      const number = picked.findIndex(place => String(place) === thumbnail.dataset.place);
      thumbnail.setAttribute("aria-pressed", String(number >= 0));
      thumbnail.style.setProperty("--colour", number >= 0 ? this.colour(number) : "transparent");
    });
  }

  legendItems() {
    const {picked, view} = this.state;
    const layers = new Set(picked.map(([layer]) => layer));
    const name = ([layer, head]) => layers.size === 1 ? `head ${head + 1}` : `layer ${layer + 1}, head ${head + 1}`;
    const items = picked.slice(0, 16).map((place, number) => {
      const item = make("li", {}, make("i", {"aria-hidden": "true"}), name(place));
      item.style.setProperty("--colour", this.colour(number));
      return item;
    });
    if (layers.size === 1) items.unshift(make("li", {}, `Layer ${picked[0][0] + 1}:`));
    if (picked.length > 16) items.push(make("li", {}, `and ${picked.length - 16} more`));
    if (view === "matrix") items.push(make("li", {class: "scale"}, "0%", make("b", {"aria-hidden": "true"}), this.scaleEnd = make("span")));
    return items;
  }

  /** A bar as long as the mean weight, in which each head has its share. */
  shares(weights, index) {
    let end = 0;
    const parts = weights.map((row, number) => {
      const start = end;
      end += row[index] / 255 / weights.length * 100;
      return `${this.colour(number)} ${start.toFixed(2)}% ${end.toFixed(2)}%`;
    });
    return `linear-gradient(to right, ${parts.join(", ")}, transparent ${end.toFixed(2)}%)`;
  }

  /** Its parts. A word is isolated from the sentence, which may be written in the other direction. */
  sentence(means) {
    const {active, state} = this;
    const {keys, queries} = this.sides;
    const heads = state.picked.length === 1 ? `layer ${state.picked[0][0] + 1}, head ${state.picked[0][1] + 1}` : `mean of ${state.picked.length} heads`;
    if (this.cell) {
      const [row, column] = this.cell;
      const share = this.values[row * keys.length + column] / 255;
      return [quoted(queries[row]), " looks at ", quoted(keys[column]), ` with ${percent(share)} (${heads}).`];
    }
    if (!active) return [`${KINDS[state.kind].about} Point at a word to see where it looks.`];
    const others = active.side === "keys" ? queries : keys;
    const largest = range(others.length).sort((a, b) => means[b] - means[a]).filter(index => means[index] >= 255 / 200).slice(0, 4);
    const list = largest.flatMap((index, place) => [place ? ", " : "", quoted(others[index]), ` ${percent(means[index] / 255)}`]);
    const does = active.side === "keys" ? " is looked at by " : " looks at ";
    const {probabilities} = this.unitsOf;
    const written = active.side === "queries" && state.kind !== "encoder" && probabilities
      ? ` It was written with a probability of ${percent(probabilities[active.index])}.` : "";
    const name = quoted(this.sides[active.side][active.index]);
    return [name, does, ...(list.length ? list : ["no word with 1% or more"]), ` (${heads}).${written}`];
  }

  drawLines() {
    const {canvas, state, map, middles, active} = this;
    const context = canvas.getContext("2d");
    const width = canvas.clientWidth;
    context.clearRect(0, 0, width, canvas.clientHeight);
    context.lineCap = "round";
    const least = Math.max(1, active ? 1 : state.threshold * 2.55);
    let left = MOST_LINES;
    state.picked.forEach(([layer, head], number) => {
      const start = (layer * map.heads + head) * map.queries * map.keys;
      const shift = (number - (state.picked.length - 1) / 2) * Math.min(2, 12 / state.picked.length);
      for (let query = 0; query < map.queries; query++) {
        if (!this.isWritten(query) || (active?.side === "queries" && active.index !== query)) continue;
        for (let key = 0; key < map.keys; key++) {
          const weight = map.bytes[start + query * map.keys + key];
          if (weight < least || (active?.side === "keys" && active.index !== key) || left-- < 0) continue;
          const share = weight / 255;
          context.strokeStyle = this.colour(number, (0.12 + 0.8 * share).toFixed(2));
          context.lineWidth = 0.6 + 3.4 * share;
          context.beginPath();
          context.moveTo(0, middles.keys[key] + shift);
          context.bezierCurveTo(width * 0.4, middles.keys[key] + shift, width * 0.6, middles.queries[query] + shift, width, middles.queries[query] + shift);
          context.stroke();
        }
      }
    });
  }

  drawThumbnails() {
    const {bytes, heads, queries, keys} = this.map;
    this.thumbnails.forEach((row, layer) => row.forEach((thumbnail, head) => {
      const start = (layer * heads + head) * queries * keys;
      const {values, rows, columns} = shrunk(bytes.subarray(start, start + queries * keys), queries, keys, THUMBNAIL);
      this.paint(thumbnail.firstChild, values, rows, columns, 255);
    }));
  }

  /** A canvas of one pixel a cell. */
  paint(canvas, values, rows, columns, largest) {
    canvas.width = columns;
    canvas.height = rows;
    const image = new ImageData(columns, rows);
    const square = this.map.keys > LONG;
    values.forEach((value, place) => {
      const part = Math.min(1, value / largest);
      const [red, green, blue] = this.heat[Math.round(255 * (square ? Math.sqrt(part) : part))];
      image.data.set([red, green, blue, 255], 4 * place);
    });
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  /* The matrix */

  drawMatrix() {
    const {map, state, values} = this;
    const {keys, queries} = this.sides;
    const scroll = this.matrix.parentNode;
    const context = this.matrix.getContext("2d");
    const font = `13px ${getComputedStyle(this.root).fontFamily}`;
    context.font = font;
    const widest = units => Math.min(130, Math.max(...units.slice(0, 400).map(unit => context.measureText(cut(visible(unit))).width)));
    const room = scroll.clientWidth - 4;
    let left = widest(queries) + 12, top = widest(keys) * 0.75 + 18;
    const cell = Math.max(3, Math.min(42, Math.floor((room - left) / map.keys)));
    const isNamed = cell >= 14;
    if (!isNamed) left = top = 4;
    const size = isNamed ? cell : Math.max(3, Math.min(14, (room - left) / map.keys));
    const high = isNamed ? Math.min(cell, 30) : size;
    fit(this.matrix, Math.ceil(left + size * map.keys + (isNamed ? top * 0.7 : 4)), Math.ceil(top + high * map.queries + 2), Math.min(devicePixelRatio || 1, 2));
    const largest = Math.max(1, ...range(map.queries).map(query => values.subarray(query * map.keys, (query + 1) * map.keys).reduce((a, b) => Math.max(a, b), 0)));
    this.scaleEnd.textContent = percent(largest / 255) + (map.keys > LONG ? ", by square roots" : "");
    const picture = make("canvas");
    this.paint(picture, values, map.queries, map.keys, largest);
    this.picture = {left, top, size, high};
    context.imageSmoothingEnabled = false;
    context.drawImage(picture, left, top, size * map.keys, high * map.queries);
    if (isNamed) this.nameMatrix(context, font, {keys, queries, values, largest});
    this.markCell(context);
    const heads = state.picked.length === 1 ? `layer ${state.picked[0][0] + 1}, head ${state.picked[0][1] + 1}` : `the mean of ${state.picked.length} heads`;
    this.matrix.setAttribute("aria-label", `Matrix of ${map.queries} rows and ${map.keys} columns, ${heads}; arrow keys move from cell to cell.`);
  }

  meanMatrix() {
    const {map, state} = this;
    const cells = map.queries * map.keys;
    const values = mean(state.picked.map(([layer, head]) => map.bytes.subarray((layer * map.heads + head) * cells, (layer * map.heads + head + 1) * cells)));
    return state.step === null ? values : values.fill(0, (state.step + 1) * map.keys);
  }

  nameMatrix(context, font, {keys, queries, values, largest}) {
    const {left, top, size, high} = this.picture;
    const css = colour => `rgb(${colour.join(" ")})`;
    context.font = font;
    context.fillStyle = css(this.ink);
    context.textBaseline = "middle";
    context.textAlign = "right";
    queries.forEach((unit, row) => {
      context.globalAlpha = this.isWritten(row) ? 1 : 0.25;
      context.fillText(cut(visible(unit)), left - 7, top + (row + 0.5) * high);
    });
    context.globalAlpha = 1;
    context.textAlign = "left";
    keys.forEach((unit, column) => {
      context.save();
      context.translate(left + (column + 0.5) * size, top - 7);
      context.rotate(-Math.PI / 4);
      context.fillText(cut(visible(unit)), 0, 0);
      context.restore();
    });
    context.strokeStyle = css(this.background);
    context.lineWidth = 1;
    context.beginPath();
    range(keys.length + 1).forEach(column => { context.moveTo(left + column * size, top); context.lineTo(left + column * size, top + high * queries.length); });
    range(queries.length + 1).forEach(row => { context.moveTo(left, top + row * high); context.lineTo(left + size * keys.length, top + row * high); });
    context.stroke();
    if (size < 30) return;
    context.textAlign = "center";
    context.font = font.replace("13px", "11px");
    values.forEach((value, place) => {
      if (value < 25.5) return;
      const [red, green, blue] = this.heat[Math.round(255 * Math.min(1, value / largest))];
      context.fillStyle = 0.3 * red + 0.6 * green + 0.1 * blue > 140 ? "#10151c" : "#ffffff";
      context.fillText(percent(value / 255), left + (place % keys.length + 0.5) * size, top + (Math.floor(place / keys.length) + 0.5) * high + 0.5);
    });
  }

  markCell(context) {
    const {map, picture: {left, top, size, high}, active} = this;
    const word = this.cell ? null : active;
    context.strokeStyle = `rgb(${this.ink.join(" ")})`;
    context.lineWidth = 2;
    if (this.cell) context.strokeRect(left + this.cell[1] * size, top + this.cell[0] * high, size, high);
    else if (word?.side === "queries") context.strokeRect(left, top + word.index * high, size * map.keys, high);
  }

  hoverCell(event) {
    const {left, top, size, high} = this.picture ?? {};
    const box = this.matrix.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - left) / size), row = Math.floor((event.clientY - box.top - top) / high);
    this.showCell(column >= 0 && row >= 0 && column < this.map.keys && row < this.map.queries && this.isWritten(row) ? [row, column] : null, event);
  }

  moveCell(event) {
    const [row, column] = this.cell ?? [0, 0];
    const to = {ArrowRight: [row, column + 1], ArrowLeft: [row, column - 1], ArrowDown: [row + 1, column], ArrowUp: [row - 1, column],
      Home: [row, 0], End: [row, this.map.keys - 1]}[event.key];
    if (!to) return;
    event.preventDefault();
    const last = (this.state.step ?? this.map.queries - 1);
    this.showCell(this.cell ? [Math.max(0, Math.min(to[0], last)), Math.max(0, Math.min(to[1], this.map.keys - 1))] : [0, 0]);
  }

  showCell(cell, event) {
    if (this.state.view !== "matrix") cell = null; // a key may still reach the matrix in the moment in which it goes
    this.tip.hidden = !cell || !event;
    if (cell && event) {
      const {keys, queries} = this.sides;
      const share = this.values[cell[0] * keys.length + cell[1]] / 255;
      this.tip.replaceChildren(make("bdi", {}, short(queries[cell[0]])), " → ", make("bdi", {}, short(keys[cell[1]])), make("b", {}, percent(share)));
      const box = this.tip.parentNode.getBoundingClientRect();
      this.tip.style.left = `${Math.min(event.clientX - box.left + 14, box.width - this.tip.offsetWidth)}px`;
      this.tip.style.top = `${event.clientY - box.top + 18}px`;
    }
    if (String(cell) === String(this.cell)) return;
    this.cell = cell;
    this.schedule("draw");
  }
}

/* Parts that know nothing of the view */

/** An element; a name that begins with "on" is a listener, and a null value leaves its attribute out. */
function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** A group of radio buttons; `options` maps values to names, and `content` makes what is shown of one. */
let groups = 0;
function choice(legend, options, chosen, onchange, content = name => [String(name)]) {
  const name = `attention-${groups += 1}`;
  return make("fieldset", {class: "choice"}, make("legend", {}, legend), ...Object.entries(options).map(([value, shown]) =>
    make("label", {}, make("input", {type: "radio", name, value, "data-group": legend, checked: value === String(chosen) ? "" : null,
      onchange: () => onchange(value)}), make("span", {}, ...content(shown)))));
}

const range = count => Array.from({length: count}, (_, index) => index);
const next = (list, one) => list[(list.indexOf(one) + 1) % list.length];
const percent = share => `${Math.round(100 * share)}%`;
const quoted = unit => make("span", {}, "“", make("bdi", {}, short(unit)), "”");
const visible = unit => unit.trim() ? unit : "␣";
const cut = text => text.length > 18 ? `${text.slice(0, 17)}…` : text;
const short = unit => visible(unit).length > 30 ? `${visible(unit).slice(0, 29)}…` : visible(unit);

function mean(rows) {
  const sum = new Float32Array(rows[0].length);
  for (const row of rows) for (let place = 0; place < sum.length; place++) sum[place] += row[place];
  return sum.map(value => value / rows.length);
}

/** At most `most` rows and columns; a cell of the smaller picture is the largest weight in its place. */
function shrunk(values, queries, keys, most) {
  const rows = Math.min(queries, most), columns = Math.min(keys, most);
  if (rows === queries && columns === keys) return {values, rows, columns};
  const found = new Uint8Array(rows * columns);
  for (let query = 0, place = 0; query < queries; query++) {
    const start = Math.floor(query * rows / queries) * columns;
    for (let key = 0; key < keys; key++, place++) {
      const to = start + Math.floor(key * columns / keys);
      if (values[place] > found[to]) found[to] = values[place];
    }
  }
  return {values: found, rows, columns};
}

function fit(canvas, width, height, scale) {
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
}

/** "rtl" for text whose first letter is written from right to left. */
function direction(text) {
  const letter = text.match(/\p{L}/u)?.[0] ?? "";
  return /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u.test(letter) ? "rtl" : "ltr";
}

async function decode(map) {
  let bytes = map.weights;
  if (typeof bytes === "string") bytes = Uint8Array.from(atob(bytes), character => character.charCodeAt(0));
  if (map.encoding === "deflate") {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  }
  if (bytes.length !== map.layers * map.heads * map.queries * map.keys) throw new RangeError("their number does not fit");
  return {...map, bytes};
}

globalThis.showAttention = showAttention;
})();
