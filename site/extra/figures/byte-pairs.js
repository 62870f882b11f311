// Byte-pair encoding learns from the reader's own text, one merge at a time.

import { splitWords } from "../browser/wordpiece.js";
import { button, define, element, said, table } from "./figure.js";
import { byteMerges } from "./numbers.js";

const MOST_MERGES = 200;
const SHOWN = { words: 40, pairs: 6 };

/** How often each word of a text occurs, the most frequent first. */
export function wordCounts(text) {
  const counts = new Map();
  for (const word of splitWords(text.toLowerCase())) counts.set(word, (counts.get(word) ?? 0) + 1);
  return new Map([...counts].sort((a, b) => b[1] - a[1]));
}

/** A word in its pieces; the piece that was just made stands out. */
function boxes({ pieces, count }, made) {
  const chips = pieces.map((piece) => element("span", { class: `chip ${piece === made ? "weight" : ""}` }, piece));
  return element("span", { style: "display: inline-block; margin-right: 1em" }, ...chips, element("small", {}, ` × ${count}`));
}

define("byte-pairs", (data) => {
  const [told, words, below] = [said(), element("div", { style: "margin: 0.5rem 0" }), element("div")];
  let [steps, at] = [[], 0];
  const show = () => {
    const { words: now, pairs, best } = steps[at];
    const last = at ? steps[at - 1] : null;
    words.replaceChildren(...now.slice(0, SHOWN.words).map((word) => boxes(word, last?.best.join(""))));
    if (now.length > SHOWN.words) words.append(`and ${now.length - SHOWN.words} rarer words`);
    const rows = pairs.slice(0, SHOWN.pairs).map(({ pair, count }) => [pair.join(" + "), String(count)]);
    below.replaceChildren(table("Most frequent pairs, the next one first", ["pair", "count"], rows, best ? 0 : -1));
    const long = now.reduce((sum, { pieces, count }) => sum + pieces.length * count, 0);
    const done = last ? `Merge ${at} joined ${last.best.join(" + ")}, ${last.pairs[0].count} times. ` : "No merge yet. ";
    const size = `The text takes ${long} pieces, and the vocabulary has ${letters() + at}.`;
    told.textContent = done + size + (best ? "" : at < MOST_MERGES ? " No pair is left." : " This figure stops here.");
    for (const [node, off] of [[back, at === 0], [start, at === 0], [next, !best], [end, !best]]) node.disabled = off;
  };
  const letters = () => new Set(steps[0].words.flatMap(({ pieces }) => pieces)).size;
  const go = (to) => () => {
    at = Math.min(steps.length - 1, Math.max(0, to()));
    show();
  };
  const read = () => {
    steps = byteMerges(wordCounts(text.value), MOST_MERGES);
    go(() => 0)();
  };
  const text = element("textarea", { rows: 3, maxlength: 3000, oninput: read }, data.text);
  const [next, back] = [button("Next merge", go(() => at + 1)), button("Back", go(() => at - 1))];
  const [start, end] = [button("To the start", go(() => 0)), button("To the end", go(() => steps.length))];
  read();
  const label = element("label", {}, "A text to learn from ", text);
  return [label, element("div", { class: "row" }, next, back, start, end), told, words, below];
});
