// BERT's tokenizer, the same as d2lbert/text/wordpiece.py: clean up a text, split it into words, split words into pieces.
//
// A text is a list of characters (code points) here, since a string of JavaScript counts some characters twice. Positions
// are those of characters, as in Python.

import * as tables from "./unicode.js";

const SPECIAL = /(\[PAD\]|\[UNK\]|\[CLS\]|\[SEP\]|\[MASK\])/;
const LONGEST_WORD = 100; // characters; a longer word is unknown
const HANGUL = { first: 0xac00, last: 0xd7a3, leading: 0x1100, vowel: 0x1161, trailing: 0x11a7, vowels: 21, trailings: 28 };

const items = (table) => table.trim().split(/\s+/);

/** Return a function that tells whether a code point is in a table of hexadecimal ranges: GAP from the last, and LENGTH. */
export function membership(table) {
  const ranges = [];
  let code = 0;
  for (const range of items(table)) {
    const [gap, length] = range.split("-").map((part) => parseInt(part, 16));
    const first = code + gap;
    code = first + (length || 0);
    ranges.push([first, code]);
  }
  return (code) => {
    let [low, high] = [0, ranges.length]; // the first range that begins after the code is among low to high
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ranges[middle][0] <= code) low = middle + 1;
      else high = middle;
    }
    return low > 0 && code <= ranges[low - 1][1];
  };
}

/** Return a map from code points to characters: GAP from the last code point, and how far on each character is. */
function changes(table) {
  const found = new Map();
  let code = 0;
  for (const item of items(table)) {
    const [gap, steps] = item.split(":");
    code += parseInt(gap, 16);
    found.set(code, String.fromCodePoint(...steps.split("+").map((step) => code + parseInt(step, 16))));
  }
  return found;
}

const isControl = membership(tables.control);
const isWhite = membership(tables.white);
const isPunctuation = membership(tables.punctuation);
const isChinese = membership(tables.chinese);
const isMark = membership(tables.mark);
const isWordCharacter = membership(tables.wordCharacter);
const WITHOUT_MARKS = changes(tables.withoutMarks);
const LOWER = changes(tables.lower);

/** Return a syllable of Hangul as its letters (The Unicode Standard, section 3.12). */
function hangulLetters(code) {
  const index = code - HANGUL.first;
  const trailing = index % HANGUL.trailings;
  const both = Math.floor(index / HANGUL.trailings);
  const letters = [HANGUL.leading + Math.floor(both / HANGUL.vowels), HANGUL.vowel + (both % HANGUL.vowels)];
  if (trailing > 0) letters.push(HANGUL.trailing + trailing);
  return String.fromCodePoint(...letters);
}

function stripped(character, code) {
  if (code >= HANGUL.first && code <= HANGUL.last) return hangulLetters(code);
  if (isMark(code)) return "";
  return WITHOUT_MARKS.get(code) ?? character;
}

/** Return what a character becomes: nothing, a space, or characters, with spaces around a word of its own. */
export function cleanCharacter(character, lowercase, stripAccents) {
  const code = character.codePointAt(0);
  if (isControl(code)) return "";
  if (isWhite(code)) return " ";
  let cleaned = stripAccents ? stripped(character, code) : character;
  if (lowercase) cleaned = Array.from(cleaned, (part) => LOWER.get(part.codePointAt(0)) ?? part).join("");
  cleaned = Array.from(cleaned, (part) => (isPunctuation(part.codePointAt(0)) ? ` ${part} ` : part)).join("");
  return isChinese(code) ? ` ${cleaned} ` : cleaned;
}

/** Split the longest pieces off a word, given as a list of characters; [token, start, end] of each piece. */
export function longestMatch(letters, vocabulary) {
  const unknown = [["[UNK]", 0, letters.length]];
  if (letters.length > LONGEST_WORD) return unknown;
  const pieces = [];
  let start = 0;
  while (start < letters.length) {
    let end = letters.length;
    let token = null;
    for (; end > start; end--) {
      token = (start === 0 ? "" : "##") + letters.slice(start, end).join("");
      if (vocabulary.has(token)) break;
    }
    if (end === start) return unknown;
    pieces.push([token, start, end]);
    start = end;
  }
  return pieces;
}

/** Pieces of a text without special tokens around them: ids, tokens, and [start, end] of each in the text. */
class Pieces {
  constructor(ids = [], tokens = [], offsets = []) {
    Object.assign(this, { ids, tokens, offsets });
  }

  between(start, end) {
    return new Pieces(this.ids.slice(start, end), this.tokens.slice(start, end), this.offsets.slice(start, end));
  }
}

/** BERT's tokenizer over a vocabulary, the text of a vocab.txt: one piece a line, its number is its id. */
export class WordPiece {
  constructor(vocabularyText, { lowercase = true, stripAccents = lowercase } = {}) {
    const lines = vocabularyText.split("\n").map((line) => line.replace(/\r$/, ""));
    if (lines.at(-1) === "") lines.pop();
    this.vocabulary = lines;
    this.ids = new Map(lines.map((piece, id) => [piece, id]));
    this.lowercase = lowercase;
    this.stripAccents = stripAccents;
    this.cleaned = new Map(); // character -> what it becomes; most texts use few
  }

  /** Return the pieces of a text, without special tokens around it. */
  tokenize(text) {
    return this.pieces(text).tokens;
  }

  /** Return ids, segmentIds, tokens, offsets and special of [CLS] a [SEP], or of [CLS] a [SEP] b [SEP]. */
  encode(a, b = null, maxLength = null) {
    return this.assemble(this.pieces(a), b === null ? null : this.pieces(b), maxLength);
  }

  pieces(text) {
    const found = new Pieces();
    let position = 0;
    text.split(SPECIAL).forEach((part, index) => {
      const characters = Array.from(part);
      if (index % 2 === 1) {
        this.add(found, part, position, position + characters.length);
      } else {
        for (const word of this.words(characters)) {
          for (const [token, start, end] of longestMatch(word.letters, this.ids)) {
            this.add(found, token, position + word.positions[start], position + word.positions[end - 1] + 1);
          }
        }
      }
      position += characters.length;
    });
    return found;
  }

  add(pieces, token, start, end) {
    pieces.ids.push(this.ids.get(token));
    pieces.tokens.push(token);
    pieces.offsets.push([start, end]);
  }

  /** Return the words of a list of characters: their letters after cleaning, and where each letter was. */
  words(characters) {
    const words = [];
    let word = { letters: [], positions: [] };
    const finish = () => {
      if (word.letters.length > 0) words.push(word);
      word = { letters: [], positions: [] };
    };
    characters.forEach((character, position) => {
      for (const cleaned of this.clean(character)) {
        if (cleaned === " ") {
          finish();
        } else {
          word.letters.push(cleaned);
          word.positions.push(position);
        }
      }
    });
    finish();
    return words;
  }

  clean(character) {
    if (!this.cleaned.has(character)) {
      this.cleaned.set(character, cleanCharacter(character, this.lowercase, this.stripAccents));
    }
    return this.cleaned.get(character);
  }

  /** Put [CLS] and [SEP] around pieces, after cutting them to maxLength tokens in all; the longer text is cut first. */
  assemble(a, b = null, maxLength = null) {
    if (maxLength !== null) [a, b] = truncate(a, b, maxLength - (b === null ? 2 : 3));
    const added = (token) => new Pieces([this.ids.get(token)], [token], [[0, 0]]);
    const parts = [[added("[CLS]"), 0], [a, 0], [added("[SEP]"), 0]];
    if (b !== null) parts.push([b, 1], [added("[SEP]"), 1]);
    return {
      ids: parts.flatMap(([pieces]) => pieces.ids),
      tokens: parts.flatMap(([pieces]) => pieces.tokens),
      offsets: parts.flatMap(([pieces]) => pieces.offsets),
      segmentIds: parts.flatMap(([pieces, segment]) => pieces.ids.map(() => segment)),
      special: parts.flatMap(([pieces]) => pieces.ids.map(() => pieces !== a && pieces !== b)),
    };
  }
}

/** Return the words and punctuation marks of a text, in order, as d2lbert/text/words.py does: what tags are given to. */
export function splitWords(text) {
  const characters = Array.from(text);
  const inWord = characters.map((character) => isWordCharacter(character.codePointAt(0)));
  const words = [];
  for (let start = 0, end = 0; start < characters.length; start = end) {
    end = start + 1;
    if (inWord[start]) {
      while (inWord[end] || ("'’-".includes(characters[end] ?? " ") && inWord[end + 1])) end++;
      words.push(characters.slice(start, end).join(""));
    } else if (!isWhite(characters[start].codePointAt(0))) {
      words.push(characters[start]);
    }
  }
  return words;
}

function truncate(a, b, room) {
  if (room < 1) throw new RangeError("the longest length leaves no room for a single piece");
  if (b === null) return [a.between(0, room), null];
  if (a.ids.length + b.ids.length <= room) return [a, b];
  const shorter = Math.min(a.ids.length, b.ids.length, Math.floor(room / 2));
  const longer = room - shorter;
  const first = a.ids.length > b.ids.length ? longer : shorter;
  return [a.between(0, first), b.between(0, room - first)];
}
