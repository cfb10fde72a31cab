/** Text in, translations out: the tokenizer, the two ONNX models, and the search between them. */

import { beamSearch } from "./beam_search.js";
import { Refusal } from "./sentences.js";

/** Tokens of one sentence at most: a browser's memory is small, and attention grows with their square. */
const LONGEST_SENTENCE = 512;

/** Tokens of a sentence or a translation whose attention is drawn, at most. */
const LONGEST_DRAWN = 200;

export class Translator {
  /**
   * @param {object} ort onnxruntime-web
   * @param {typeof import("@huggingface/tokenizers").Tokenizer} Tokenizer
   * @param {{encoder: Uint8Array, decoder: Uint8Array, config: object, search: object, tokenizer: object, tokenizerConfig: object}} files
   */
  static async create(ort, Tokenizer, files) {
    const options = { executionProviders: ["wasm"] };
    const encoder = await ort.InferenceSession.create(files.encoder, options);
    const decoder = await ort.InferenceSession.create(files.decoder, options);
    return new Translator(new Model(ort, encoder, decoder, files.config), new Vocabulary(Tokenizer, files), files);
  }

  constructor(model, vocabulary, { config, search }) {
    Object.assign(this, { model, vocabulary, config });
    /** The settings that the model was published with. */
    this.defaults = search;
    this.languages = [...vocabulary.languages.keys()];
  }

  /**
   * Translate one sentence.
   * @param {string} sentence
   * @param {{beams?: number, alpha?: number, extraLength?: number, wanted?: number, language?: string}} [settings]
   * @param {function(string): (Promise<boolean>|boolean)} [onText] gets the best translation so far at every step; false stops the search
   * @returns {Promise<{sentence: string, source: number[], encoded: object, translations: {text: string, score: number, tokens: number[]}[]}>}
   */
  async translate(sentence, settings = {}, onText = () => true) {
    const { beams, alpha, extraLength, wanted = 1, language } = { ...this.defaults, ...settings };
    const source = this.vocabulary.encode(sentence, language);
    if (source.length > LONGEST_SENTENCE) {
      const start = sentence.trim().slice(0, 30);
      throw new Refusal(
        `The sentence that begins with “${start}” is ${source.length} pieces long; the longest that this page translates has ` +
          `${LONGEST_SENTENCE}. Please divide it by full stops or line breaks.`,
      );
    }
    const encoded = await this.model.read(source);
    const ends = [this.config.eos_token_id].flat();
    const search = { beams, alpha, limit: source.length + extraLength, wanted: Math.min(wanted, beams), ends };
    const found = await beamSearch(this.model.steps(encoded), search, (tokens) => onText(this.vocabulary.decode(tokens)));
    const translations = found.map(({ worth, tokens }) => ({ text: this.vocabulary.decode(tokens), score: worth, tokens }));
    return { sentence, source, encoded, translations };
  }

  /**
   * Where every head looks, for `showAttention` of attention_page.js.
   * @param {{sentence: string, source: number[], encoded: object, translations: object[]}} result of `translate`
   */
  async attention({ sentence, source, encoded, translations }) {
    const longest = Math.max(source.length, ...translations.map(({ tokens }) => tokens.length));
    if (longest > LONGEST_DRAWN) {
      throw new Refusal(`Attention is drawn for sentences of at most ${LONGEST_DRAWN} pieces; this one, or a translation of it, has ${longest}.`);
    }
    const candidates = [];
    for (const { tokens, score, text } of translations) {
      const read = [this.config.decoder_start_token_id, ...tokens.slice(0, -1)];
      const layers = await this.model.attention(encoded, read);
      const ids = { source, target: tokens, read };
      const pieces = units(this.vocabulary, ids, layers, (row) => row.map((_, place) => [place]));
      const words = units(this.vocabulary, ids, layers, (row) => this.vocabulary.words(row));
      candidates.push({ ...pieces, words, score, source_text: sentence, target_text: text });
    }
    return { candidates };
  }
}

/** The tokenizer, with control tokens that no text can spell. */
class Vocabulary {
  constructor(Tokenizer, { tokenizer, tokenizerConfig }) {
    const controls = tokenizer.added_tokens.filter((token) => token.special);
    const isOurs = tokenizerConfig.split_special_tokens === true;
    // The library looks for control tokens in the text, whatever its settings say; one that knows of none finds none.
    this.tokenizer = new Tokenizer(isOurs ? { ...tokenizer, added_tokens: [] } : tokenizer, tokenizerConfig);
    this.controls = new Map(controls.map((token) => [token.id, token.content]));
    this.pieces = new Map(Object.entries(tokenizer.model.vocab).map(([piece, id]) => [id, piece]));
    const named = isOurs ? controls.filter((token) => /^<2[\w-]+>$/.test(token.content)) : [];
    this.languages = new Map(named.map((token) => [token.content.slice(2, -1), token.id]));
  }

  encode(text, language) {
    const prefix = this.languages.size ? [this.languages.get(language) ?? this.languages.values().next().value] : [];
    return [...prefix, ...this.tokenizer.encode(text).ids];
  }

  decode(ids) {
    const written = ids.filter((id) => !this.controls.has(id));
    return written.length ? this.tokenizer.decode(written) : "";
  }

  /** How tokens are shown: what they spell together, without the space before it. */
  label(ids) {
    return ids.map((id) => this.controls.get(id) ?? "").join("") || this.spelled(ids).trim() || "\u2423";
  }

  /** The places of each word's tokens. A word begins after a space, and where letters, digits and signs meet. */
  words(ids) {
    const found = [];
    let before = "control";
    ids.forEach((id, place) => {
      const kind = this.controls.has(id) ? "control" : kindOf(this.spelled([id]));
      const continues = before !== "control" && (kind === "rest" || kind === before);
      if (continues) found.at(-1).push(place);
      else found.push([place]);
      if (kind !== "rest" || !continues) before = kind.replace("new ", "");
    });
    return found;
  }

  /** The text of tokens whose bytes stand for characters, as in GPT-2. */
  spelled(ids) {
    const characters = ids.map((id) => this.pieces.get(id) ?? "").join("");
    const bytes = Uint8Array.from(characters, (character) => {
      const code = character.codePointAt(0);
      return code < 256 ? code : BYTES_ELSEWHERE[code - 256];
    });
    return new TextDecoder().decode(bytes);
  }
}

/** What a piece begins with: a space ("new ..."), letters, digits, signs, or a part of a character only ("rest"). */
function kindOf(text) {
  const first = text.trimStart();
  const kind = /^\uFFFD|^$/.test(first) ? "rest" : /^[\p{L}\p{M}]/u.test(first) ? "letters" : /^\p{N}/u.test(first) ? "digits" : "signs";
  return first === text ? kind : `new ${kind}`;
}

/** The bytes that are no printable character of Latin-1, in the order in which GPT-2's alphabet gives them the characters from 256 on. */
const BYTES_ELSEWHERE = Array.from({ length: 256 }, (_, byte) => byte).filter(
  (byte) => byte < 33 || (byte > 126 && byte < 161) || byte === 173,
);

/** The two ONNX models. */
class Model {
  constructor(ort, encoder, decoder, config) {
    Object.assign(this, { ort, encoder, decoder, config });
    this.kept = decoder.inputNames.filter((name) => name.startsWith("past_key_values."));
  }

  /** Run the encoder over one source. */
  async read(source) {
    const mask = this.integers(source.map(() => 1), [1, source.length]);
    const outputs = await this.encoder.run({ input_ids: this.integers(source, [1, source.length]), attention_mask: mask });
    return { mask, states: outputs.last_hidden_state, outputs };
  }

  /** The decoder, as the search asks for it. */
  steps(encoded) {
    return new Steps(this, encoded);
  }

  /**
   * Run the decoder.
   * @param {object} encoded what `read` gave
   * @param {number[][]} rows the new tokens of each hypothesis
   * @param {Object<string, object>} cache
   * @param {string[]} wanted the outputs to compute
   */
  decode(encoded, rows, cache, wanted) {
    const inputIds = this.integers(rows.flat(), [rows.length, rows[0].length]);
    const feeds = { input_ids: inputIds, encoder_attention_mask: encoded.mask, encoder_hidden_states: encoded.states, ...cache };
    return this.decoder.run(feeds, wanted);
  }

  /** A cache that holds nothing yet. */
  emptyCache() {
    const { decoder_attention_heads: heads, d_model: width } = this.config;
    const nothing = () => new this.ort.Tensor("float32", new Float32Array(0), [1, heads, 0, width / heads]);
    return Object.fromEntries(this.kept.map((name) => [name, nothing()]));
  }

  /** All weights of one translation, in one pass over the tokens that the decoder read. */
  async attention(encoded, read) {
    const names = (kind, outputs) => outputs.filter((name) => name.startsWith(`${kind}_attentions.`));
    const ofDecoder = [...names("decoder", this.decoder.outputNames), ...names("cross", this.decoder.outputNames)];
    const outputs = await this.decode(encoded, [read], this.emptyCache(), ofDecoder);
    const layers = (kind, from) => names(kind, Object.keys(from)).map((name) => from[name]);
    return { encoder: layers("encoder", encoded.outputs), decoder: layers("decoder", outputs), cross: layers("cross", outputs) };
  }

  integers(numbers, sizes) {
    return new this.ort.Tensor("int64", BigInt64Array.from(numbers, BigInt), sizes);
  }
}

/** Steps over a decoder whose cache follows the hypotheses; see beam_search.js. */
class Steps {
  constructor(model, encoded) {
    Object.assign(this, { model, encoded });
    this.cache = model.emptyCache();
    this.wanted = ["logits", ...model.kept.map((name) => name.replace("past_key_values", "present"))];
  }

  first() {
    return this.step([[this.model.config.decoder_start_token_id]]);
  }

  next(tokens, origins) {
    for (const name of this.model.kept) {
      // What is kept of the source is the same for all hypotheses.
      if (name.includes(".decoder.")) this.cache[name] = chosenRows(this.model.ort, this.cache[name], origins);
    }
    return this.step(tokens.map((token) => [token]));
  }

  async step(rows) {
    const outputs = await this.model.decode(this.encoded, rows, this.cache, this.wanted);
    for (const name of this.model.kept) {
      if (name.includes(".decoder.") || this.cache[name].dims[2] === 0) this.cache[name] = outputs[name.replace("past_key_values", "present")];
    }
    const { data, dims } = outputs.logits;
    return rows.map((_, row) => data.subarray(row * dims[2], (row + 1) * dims[2]));
  }
}

/** The rows `chosen` of a tensor `[R, ...]`, in their order. */
function chosenRows(ort, tensor, chosen) {
  const size = tensor.data.length / tensor.dims[0];
  const data = new Float32Array(size * chosen.length);
  chosen.forEach((row, place) => data.set(tensor.data.subarray(row * size, (row + 1) * size), place * size));
  return new ort.Tensor("float32", data, [chosen.length, ...tensor.dims.slice(1)]);
}

/** Labels and weights by tokens or words, as attention_page.js takes them; `grouped` gives the places of each unit's tokens. */
function units(vocabulary, ids, layers, grouped) {
  const groups = Object.fromEntries(Object.entries(ids).map(([side, row]) => [side, grouped(row)]));
  const labels = Object.entries(groups).map(([side, places]) => [side, places.map((unit) => vocabulary.label(unit.map((place) => ids[side][place])))]);
  const maps = {
    encoder: merged(layers.encoder, groups.source, groups.source),
    decoder: merged(layers.decoder, groups.target, groups.read),
    cross: merged(layers.cross, groups.target, groups.source),
  };
  return { ...Object.fromEntries(labels), maps };
}

/** The weights of each layer `[1, heads, queries, keys]`, summed over a unit's keys and averaged over its queries, one byte each. */
function merged(layers, queries, keys) {
  const [, heads, , width] = layers[0].dims;
  const bytes = new Uint8Array(layers.length * heads * queries.length * keys.length);
  let place = 0;
  for (const { data, dims } of layers) {
    for (let head = 0; head < heads; head++) {
      for (const rows of queries) {
        for (const columns of keys) {
          let sum = 0;
          for (const row of rows) for (const column of columns) sum += data[(head * dims[2] + row) * width + column];
          bytes[place++] = Math.round((255 * sum) / rows.length);
        }
      }
    }
  }
  return { layers: layers.length, heads, queries: queries.length, keys: keys.length, weights: bytes };
}
