/**
 * The beam search of "Attention Is All You Need" (section 6.1), for any model that scores next tokens.
 *
 * A finished translation Y is worth log P(Y | X) / ((5 + |Y|) / 6)^alpha (Wu et al., 2016, equation 14, without coverage); |Y| counts the
 * token that ends it. It may have as many tokens as its source plus `extraLength`. The search stops when no open hypothesis can win any more.
 * It finds what the search in Python finds, token by token.
 *
 * The model comes as `steps`, with two methods, each of which gives one row of unnormalised scores (a Float32Array over the vocabulary) for
 * each hypothesis:
 *     await steps.first()                 the scores of the first token, one row
 *     await steps.next(tokens, origins)   after `tokens[i]` was appended to hypothesis `origins[i]` of the step before
 */

/**
 * @typedef {object} Settings
 * @property {number} beams how many hypotheses stay open; 1 is greedy search
 * @property {number} alpha the exponent of the length penalty; more favours longer translations
 * @property {number} limit how many tokens a translation may have
 * @property {number} wanted how many translations to return, at most `beams`
 * @property {number[]} ends the tokens that end a translation
 *
 * @typedef {object} Hypothesis
 * @property {number} logProbability natural logarithm of its probability, given the source
 * @property {number[]} tokens what it has written
 *
 * @typedef {{worth: number, logProbability: number, tokens: number[]}} Translation
 */

/**
 * Search for the best translations.
 * @param {{first: function(): Promise<Float32Array[]>, next: function(number[], number[]): Promise<Float32Array[]>}} steps the model
 * @param {Settings} settings
 * @param {function(number[]): (Promise<boolean>|boolean)} [onStep] gets the best translation so far; the search stops early if it gives false
 * @returns {Promise<Translation[]>} best first
 */
export async function beamSearch(steps, settings, onStep = () => true) {
  const search = settings.beams === 1 ? new Greedy(settings) : new SentenceSearch(settings);
  let rows = await steps.first();
  for (;;) {
    search.extend(candidates(rows, search.open, search.candidates));
    if (search.isDone || (await onStep(search.best())) === false) return search.results();
    rows = await steps.next(search.open.map((hypothesis) => hypothesis.tokens.at(-1)), search.origins);
  }
}

/** ((5 + length) / 6)^alpha. */
export function lengthPenalty(length, alpha) {
  return ((5 + length) / 6) ** alpha;
}

/** One sentence's hypotheses: at most `beams` open ones, and the best `wanted` of those that ended. */
class SentenceSearch {
  constructor({ beams, alpha, limit, wanted, ends }) {
    Object.assign(this, { beams, alpha, limit, wanted, ends: new Set(ends) });
    this.candidates = beams * (1 + this.ends.size);
    this.open = [{ logProbability: 0, tokens: [] }];
    this.origins = [];
    this.ended = [];
    this.length = 0;
    this.isDone = false;
  }

  /** Take the best continuations, best first. */
  extend(continuations) {
    const parents = this.open;
    this.open = [];
    this.origins = [];
    this.length += 1;
    for (const { logProbability, beam, token } of continuations) {
      const isEnd = this.ends.has(token);
      if (logProbability === -Infinity || (this.open.length === this.beams && !isEnd)) continue;
      const hypothesis = { logProbability, tokens: [...parents[beam].tokens, token] };
      if (isEnd) {
        this.end(hypothesis);
      } else {
        this.open.push(hypothesis);
        this.origins.push(beam);
      }
    }
    this.letGo();
  }

  /** Give a place to a hypothesis that ended, if it is among the best; of equals, the earlier one keeps its place. */
  end(hypothesis) {
    const worth = hypothesis.logProbability / lengthPenalty(hypothesis.tokens.length, this.alpha);
    const place = this.ended.findIndex((other) => other.worth < worth);
    this.ended.splice(place < 0 ? this.ended.length : place, 0, { worth, ...hypothesis });
    this.ended.length = Math.min(this.ended.length, this.wanted);
  }

  /**
   * Drop the open hypotheses that cannot win a place any more. Later scores only lower a log-probability, so no continuation is worth more
   * than it is now, divided by the largest penalty ahead.
   */
  letGo() {
    if (this.length < this.limit && this.ended.length === this.wanted) {
      const largestAhead = Math.max(lengthPenalty(this.length + 1, this.alpha), lengthPenalty(this.limit, this.alpha));
      const alive = this.open.filter((hypothesis) => hypothesis.logProbability / largestAhead > this.ended.at(-1).worth).length;
      this.open.length = alive;
      this.origins.length = alive;
    }
    this.isDone = this.length >= this.limit || this.open.length === 0;
  }

  /** The tokens of what would be the result now. */
  best() {
    return this.results()[0]?.tokens ?? [];
  }

  /** The best translations; if fewer than wanted have ended, the best open hypotheses follow them. */
  results() {
    const penalty = lengthPenalty(this.length, this.alpha);
    const standIns = this.open.map((hypothesis) => ({ worth: hypothesis.logProbability / penalty, ...hypothesis }));
    return [...this.ended, ...standIns].slice(0, this.wanted);
  }
}

/** The likeliest token at every step, until it ends the translation. */
class Greedy extends SentenceSearch {
  constructor(settings) {
    super({ ...settings, wanted: 1 });
    this.candidates = 1;
  }

  letGo() {
    this.isDone = this.length >= this.limit || this.ended.length > 0;
  }
}

/**
 * The `count` likeliest continuations of all open hypotheses, best first; of equals, the first.
 * Sums are rounded to float32, as in Python.
 */
function candidates(rows, open, count) {
  const best = [];
  rows.forEach((scores, beam) => {
    const shift = open[beam].logProbability;
    const normaliser = logSumExp(scores);
    let threshold = best.length === count ? best.at(-1).logProbability : -Infinity;
    for (let token = 0; token < scores.length; token++) {
      const logProbability = Math.fround(Math.fround(scores[token] - normaliser) + shift);
      if (best.length === count && !(logProbability > threshold)) continue;
      let place = best.length;
      while (place > 0 && best[place - 1].logProbability < logProbability) place--;
      best.splice(place, 0, { logProbability, beam, token });
      if (best.length > count) best.pop();
      threshold = best.at(-1).logProbability;
    }
  });
  return best;
}

/** log(sum(exp(scores))), without overflow. */
function logSumExp(scores) {
  let largest = -Infinity;
  for (const score of scores) if (score > largest) largest = score;
  let sum = 0;
  for (const score of scores) sum += Math.exp(score - largest);
  const result = largest + Math.log(sum);
  if (Number.isNaN(result)) throw new Error("The model's scores are not numbers.");
  return result;
}
