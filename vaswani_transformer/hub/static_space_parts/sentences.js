/** A text cut into sentences, which are translated one by one. */

/** A text that this page does not translate; the message tells the reader why, and what to do. */
export class Refusal extends Error {}

/** Characters of a text at most. */
export const LONGEST_TEXT = 20000;

/** Characters that are translated at once; a longer sentence is cut at white space. */
const LONGEST_PIECE = 1000;

/**
 * Cut a text at the ends of its sentences and lines.
 * @param {string} text
 * @param {string} [language] its language's code
 * @returns {{before: string, text: string, after: string}[]} sentences with the white space around them: joined, they are the text
 */
export function sentencesOf(text, language = "en") {
  if (!text.trim()) throw new Refusal("Please type a sentence to translate.");
  if (text.length > LONGEST_TEXT) {
    throw new Refusal(
      `The text has ${text.length.toLocaleString("en")} characters, and this page translates up to ${LONGEST_TEXT.toLocaleString("en")} at ` +
        "once; please give it in parts.",
    );
  }
  const segmenter = new Intl.Segmenter(isLanguage(language) ? language : "en", { granularity: "sentence" });
  const found = [];
  let blank = "";
  for (const line of text.split(/(?<=\n)/)) {
    for (const { segment } of segmenter.segment(line)) {
      for (const piece of shortened(segment)) {
        const sentence = piece.trim();
        const start = piece.indexOf(sentence);
        if (sentence) {
          found.push({ before: blank + piece.slice(0, start), text: sentence, after: piece.slice(start + sentence.length) });
          blank = "";
        } else if (found.length) {
          found.at(-1).after += piece;
        } else {
          blank += piece;
        }
      }
    }
  }
  return found;
}

/** A sentence in pieces of at most `LONGEST_PIECE` characters. */
function* shortened(sentence) {
  let rest = sentence;
  while (rest.length > LONGEST_PIECE) {
    const start = rest.slice(0, LONGEST_PIECE);
    const end = start.search(/\s\S*$/) + 1;
    if (end === 0) {
      const run = rest.match(/^\S+/)[0].length.toLocaleString("en");
      throw new Refusal(
        `The text has ${run} characters without a space, from “${rest.slice(0, 20)}” on; the longest word that this page translates has ` +
          `${LONGEST_PIECE.toLocaleString("en")}.`,
      );
    }
    yield rest.slice(0, end);
    rest = rest.slice(end);
  }
  yield rest;
}

function isLanguage(code) {
  try {
    return Intl.Segmenter.supportedLocalesOf(code).length > 0;
  } catch {
    return false;
  }
}
