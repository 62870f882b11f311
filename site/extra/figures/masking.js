// Tokens are hidden by the rule of BERT's pretraining, again and again, and the kinds are counted.

import { button, define, element, fixed, said, slider, table, tick } from "./figure.js";
import { maskTokens, uniforms } from "./numbers.js";

const KINDS = { mask: "[MASK]", other: "another piece", same: "itself" };
const COLOURS = { mask: "weight", other: "output", same: "key", "": "text" };

/** A token as the model sees it; below it the answer, where one is asked for. */
function chip(shown, kind, token) {
  const asked = kind ? element("small", {}, token) : "";
  const about = kind ? { title: `asked for: ${token}` } : {};
  const box = element("span", { class: `chip ${COLOURS[kind]}`, ...about }, shown);
  return element("span", { style: "display: inline-block; text-align: center; vertical-align: top" }, box, element("br"), asked);
}

define("masking", (data) => {
  const random = uniforms(data.seed);
  const rates = { chosen: data.chosen, masked: data.masked, replaced: data.replaced, wholeWords: false };
  const [told, row, below] = [said(), element("div", { style: "line-height: 1.6; margin: 0.5rem 0" }), element("div")];
  const counts = { mask: 0, other: 0, same: 0 };
  const ordinary = data.special.filter((special) => !special).length;
  let draws = 0;
  const again = (times) => {
    let found;
    for (let time = 0; time < times; time++) {
      found = maskTokens(data.tokens, data.special, data.pieces, rates, random);
      for (const kind of found.kinds) if (kind) counts[kind]++;
    }
    draws += times;
    show(found);
  };
  const show = ({ shown, kinds }) => {
    row.replaceChildren(...shown.map((token, place) => chip(token, kinds[place], data.tokens[place])));
    const all = counts.mask + counts.other + counts.same;
    const rule = { mask: rates.masked, other: rates.replaced, same: 1 - rates.masked - rates.replaced };
    const rows = Object.keys(KINDS).map((kind) => [KINDS[kind], `${counts[kind]}`, all ? fixed(counts[kind] / all, 3) : "", fixed(rule[kind])]);
    const share = fixed((100 * all) / (draws * ordinary), 1);
    below.replaceChildren(table(`${draws === 1 ? "1 draw" : `${draws} draws`} so far, ${share} % of the tokens chosen`, ["shown", "count", "share", "rule"], rows));
    const now = (kind) => kinds.filter((one) => one === kind).length;
    const chosen = kinds.filter(Boolean).length;
    told.textContent =
      `Asked for ${chosen} of ${ordinary} tokens: ${now("mask")} shown as [MASK], ${now("other")} as another piece, ${now("same")} as themselves.`;
  };
  const restart = () => {
    for (const kind of Object.keys(counts)) counts[kind] = 0;
    draws = 0;
    again(1);
  };
  const options = { min: 0.05, max: 0.5, step: 0.05, value: rates.chosen, show: (share) => `${fixed(100 * share, 0)} %` };
  const controls = [
    button("Again", () => again(1)),
    button("100 times", () => again(100)),
    slider("chosen", options, (share) => {
      rates.chosen = share;
      restart();
    }),
    tick("whole words", false, (whole) => {
      rates.wholeWords = whole;
      restart();
    }),
  ];
  again(1);
  const key = Object.entries(KINDS).map(([kind, name]) => element("span", { class: `chip ${COLOURS[kind]}` }, `shown as ${name}`));
  const legend = element("div", { class: "row" }, ...key, element("span", {}, "below: the answer"));
  return [element("div", { class: "row" }, ...controls), row, legend, told, below];
});
