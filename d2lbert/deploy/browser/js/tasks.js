// From logits to answers, the same as d2lbert/tasks: classification, tagging, question answering, gaps.
//
// Logits of a text are an array of C numbers, those of tokens an array of L such arrays.

import * as tables from "./unicode.js";
import { membership } from "./wordpiece.js";

const QUESTION = { longestAnswer: 30, longestQuestion: 64, best: 5 };
const isAnyMark = membership(tables.anyMark);

/** Return the probabilities of logits. */
export function softmax(logits) {
  const highest = Math.max(...logits);
  const exponentials = Array.from(logits, (logit) => Math.exp(logit - highest));
  const sum = exponentials.reduce((total, one) => total + one, 0);
  return exponentials.map((one) => one / sum);
}

/** Return the index of the largest number, the first of equal ones. */
export function argmax(numbers) {
  let best = 0;
  numbers.forEach((number, index) => {
    if (number > numbers[best]) best = index;
  });
  return best;
}

/** Return {label, probabilities}; of a model with one output, which gives a number, {score}. */
export function classification(logits, labels) {
  if (labels.length === 1) return { score: logits[0] };
  const probabilities = softmax(logits);
  return {
    label: labels[argmax(logits)],
    probabilities: Object.fromEntries(labels.map((label, index) => [label, probabilities[index]])),
  };
}

// Tags of words

/** Return the index of each token's word, -1 for [CLS] and [SEP]; starts: where each word begins in the text. */
function wordsOf(encoding, starts) {
  let word = 0;
  return encoding.offsets.map(([start], token) => {
    if (encoding.special[token]) return -1;
    while (word + 1 < starts.length && starts[word + 1] <= start) word++;
    return word;
  });
}

/** Return encodings of words, cut into parts of at most maxLength tokens, between words where a word fits at all. */
export function taggingInputs(words, tokenizer, maxLength) {
  const whole = tokenizer.encode(words.join(" "));
  if (whole.ids.length <= maxLength) return [whole];
  const pieces = tokenizer.pieces(words.join(" "));
  const wordOf = wordsOf(whole, wordStarts(words)).slice(1, -1);
  const parts = [];
  for (let begin = 0, end = 0; begin < pieces.ids.length; begin = end) {
    end = Math.min(begin + maxLength - 2, pieces.ids.length);
    let cut = end;
    while (cut < pieces.ids.length && cut > begin && wordOf[cut] === wordOf[cut - 1]) cut--;
    if (cut > begin) end = cut;
    parts.push(tokenizer.assemble(pieces.between(begin, end)));
  }
  return parts;
}

function wordStarts(words) {
  let begin = 0;
  return words.map((word) => {
    const start = begin;
    begin += Array.from(word).length + 1;
    return start;
  });
}

/** Return {tags, probabilities} of words: the first piece of a word carries its tag; a word without pieces is "O". */
export function tagging(words, encodings, outputs, labels) {
  const tags = words.map(() => (labels.includes("O") ? "O" : "X"));
  const probabilities = words.map(() => 1);
  const starts = wordStarts(words);
  let lastSeen = -1;
  encodings.forEach((encoding, part) => {
    wordsOf(encoding, starts).forEach((word, token) => {
      if (word <= lastSeen) return;
      lastSeen = word;
      const logits = outputs[part][token];
      tags[word] = labels[argmax(logits)];
      probabilities[word] = Math.max(...softmax(logits));
    });
  });
  return { tags, probabilities };
}

/** Return the entities of tags, {start, end, type} in words; tags that no scheme allows are read leniently. */
export function entities(tags) {
  const spans = [];
  let open = null;
  const close = (end) => {
    if (open !== null) spans.push({ ...open, end });
    open = null;
  };
  tags.forEach((tag, position) => {
    const letter = tag[0];
    const type = tag.slice(2);
    if (open !== null && ("OBS".includes(letter) || type !== open.type)) close(position);
    if (letter !== "O" && open === null) open = { start: position, type };
    if ("ES".includes(letter)) close(position + 1);
  });
  close(tags.length);
  return spans;
}

// Answers to questions

/** Return [begin, end] of the windows of a text of length pieces, each with room for so many, moved by half of that. */
export function cutIntoWindows(length, room) {
  if (room < 1) throw new RangeError("no room is left for the text");
  const step = Math.max(1, Math.floor(room / 2));
  const windows = [[0, Math.min(room, length)]];
  while (windows.at(-1)[1] < length) {
    const begin = windows.at(-1)[0] + step;
    windows.push([begin, Math.min(begin + room, length)]);
  }
  return windows;
}

/** Return for each piece the number of the window in which it has the most context, the first of equal ones. */
export function owners(windows) {
  const length = windows.at(-1)[1];
  const best = new Array(length).fill(-1);
  const owner = new Array(length).fill(0);
  windows.forEach(([begin, end], number) => {
    for (let piece = begin; piece < end; piece++) {
      const context = Math.min(piece - begin, end - 1 - piece);
      if (context > best[piece]) [best[piece], owner[piece]] = [context, number];
    }
  });
  return owner;
}

/** Return [{encoding, begin}] of the windows of a text with a question before each. */
export function questionInputs(question, text, tokenizer, maxLength) {
  const asked = tokenizer.pieces(question).between(0, QUESTION.longestQuestion);
  const pieces = tokenizer.pieces(text);
  if (asked.ids.length === 0 || pieces.ids.length === 0) {
    throw new RangeError("the question or the text holds nothing that the tokenizer keeps: give at least one word");
  }
  const windows = cutIntoWindows(pieces.ids.length, maxLength - 3 - asked.ids.length);
  return windows.map(([begin, end]) => ({ encoding: tokenizer.assemble(asked, pieces.between(begin, end)), begin, end }));
}

/**
 * Return {answer, start, probability, nBest} from the logits [start, end] of every token of every window.
 *
 * nullThreshold: the answer is empty where "no answer" beats the best span by more; null where every text has one.
 */
export function answer(text, inputs, outputs, nullThreshold = null) {
  const characters = Array.from(text);
  const owner = owners(inputs.map(({ begin, end }) => [begin, end]));
  const spans = [];
  inputs.forEach((input, number) => {
    for (const span of spansOf(input, outputs[number], (piece) => owner[piece] === number)) spans.push(span);
  });
  const nullScore = Math.min(...outputs.map(([first]) => first[0] + first[1]));
  const scores = spans.map(({ score }) => score);
  const total = logSumExp(nullThreshold === null ? scores : [...scores, nullScore]);
  spans.sort((one, other) => other.score - one.score);
  const nBest = distinct(characters, spans).map(({ answer, start, score }) => ({
    answer,
    start,
    probability: Math.exp(score - total),
  }));
  if (nullThreshold === null) return { ...nBest[0], nBest };
  const none = { answer: "", start: -1, probability: Math.exp(nullScore - total) };
  const margin = nullScore - spans[0].score;
  const chosen = margin > nullThreshold ? none : nBest[0];
  nBest.push(none);
  nBest.sort((one, other) => other.probability - one.probability);
  return { ...chosen, nBest, nullMargin: margin };
}

/** Return every span that a window owns: its first and last token, and the sum of their logits. */
function spansOf({ encoding, begin }, logits, owned) {
  const shift = encoding.segmentIds.indexOf(1);
  const length = encoding.ids.length - 1 - shift;
  const spans = [];
  for (let first = 0; first < length; first++) {
    if (!owned(begin + first)) continue;
    for (let last = first; last < Math.min(length, first + QUESTION.longestAnswer); last++) {
      const score = logits[shift + first][0] + logits[shift + last][1];
      spans.push({ encoding, first: shift + first, last: shift + last, score });
    }
  }
  return spans;
}

/** Return the best spans, no two with the same words, widened to whole words and to the marks of the last letter. */
function distinct(characters, spans) {
  const kept = new Map();
  for (const { encoding, first, last, score } of spans) {
    if (kept.size === QUESTION.best) break;
    let [begin, end] = [first, last];
    while (encoding.tokens[begin].startsWith("##") && !encoding.special[begin - 1]) begin--;
    while (encoding.tokens[end + 1].startsWith("##")) end++;
    const start = encoding.offsets[begin][0];
    let stop = encoding.offsets[end][1];
    while (stop < characters.length && isAnyMark(characters[stop].codePointAt(0))) stop++;
    const words = characters.slice(start, stop).join("");
    if (!kept.has(words)) kept.set(words, { answer: words, start, score });
  }
  return [...kept.values()];
}

function logSumExp(scores) {
  const highest = scores.reduce((most, score) => Math.max(most, score), -Infinity);
  return highest + Math.log(scores.reduce((sum, score) => sum + Math.exp(score - highest), 0));
}

// Gaps

/** Return the likeliest pieces for a gap, best first: [{piece, probability}]. */
export function likeliest(logits, vocabulary, count) {
  const probabilities = softmax(logits);
  const order = probabilities.map((_, id) => id).sort((one, other) => probabilities[other] - probabilities[one]);
  return order.slice(0, count).map((id) => ({ piece: vocabulary[id], probability: probabilities[id] }));
}
