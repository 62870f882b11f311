// WordPiece splits the reader's own text by BERT's vocabulary, and shows how it finds the pieces of one word.

import { WordPiece } from "../browser/wordpiece.js";
import { define, element, said, table } from "./figure.js";

const LONGEST_WORD = 100; // characters; the tokenizer does not look into a longer one
const SPECIAL = /\[(PAD|UNK|CLS|SEP|MASK)\]/g;

/** For each piece of a word: what is left of the word, how many longer pieces are in vain, and what fits, or null. */
function trace(letters, ids) {
  const rows = [];
  for (let start = 0; start < letters.length; ) {
    const [mark, rest] = [start ? "##" : "", letters.slice(start)];
    const piece = (end) => mark + rest.slice(0, end).join("");
    let end = letters.length > LONGEST_WORD ? 0 : rest.length;
    while (end > 0 && !ids.has(piece(end))) end--;
    rows.push({ rest: piece(rest.length), vain: rest.length - end, fits: end ? piece(end) : null });
    if (end === 0) return rows;
    start += end;
  }
  return rows;
}

/** A piece with its id below; a piece that continues a word has the colour of its word, an unknown one stands out. */
function chip(token, id, colour) {
  const box = element("span", { class: `chip ${token === "[UNK]" ? "weight" : colour}` }, token);
  const number = element("small", {}, String(id));
  return element("span", { style: "display: inline-block; text-align: center; margin-right: 0.3em" }, box, element("br"), number);
}

define("wordpiece", (data) => {
  const tokenizer = new WordPiece(data.vocabulary, { lowercase: data.lowercase });
  const [told, row, below] = [said(), element("div", { style: "margin: 0.5rem 0" }), element("div")];
  let words = [];
  const follow = () => {
    const word = words[Number(choice.value)];
    if (!word) return below.replaceChildren();
    const text = ({ rest, vain, fits }) => [rest, String(vain), fits ?? "nothing: the whole word is [UNK]"];
    const head = ["what is left", "longer pieces tried in vain", "longest that fits"];
    below.replaceChildren(table(`How ${word.join("")} is split`, head, trace(word, tokenizer.ids).map(text)));
  };
  const read = () => {
    const found = tokenizer.pieces(text.value);
    const colours = ["query", "key", "value", "hidden"];
    let number = -1;
    const chips = found.tokens.map((token, place) => {
      number += token.startsWith("##") ? 0 : 1;
      return chip(token, found.ids[place], colours[number % colours.length]);
    });
    row.replaceChildren(...chips);
    words = tokenizer.words(Array.from(text.value.replace(SPECIAL, " "))).map(({ letters }) => letters);
    choice.replaceChildren(...words.map((word, place) => element("option", { value: place }, word.join(""))));
    const longest = words.reduce((best, word, place) => (word.length > words[best].length ? place : best), 0);
    choice.value = String(longest);
    const unknown = found.tokens.filter((token) => token === "[UNK]").length;
    told.textContent = `${words.length} words and signs, ${found.tokens.length} pieces, ${unknown} unknown.`;
    follow();
  };
  const text = element("textarea", { rows: 2, maxlength: 1000, oninput: read }, data.text);
  const choice = element("select", { onchange: follow });
  read();
  const labels = [element("label", {}, "A text to split ", text), element("label", {}, "Follow the word ", choice)];
  return [labels[0], told, row, labels[1], below];
});
