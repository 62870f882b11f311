// From the logits of a model to the next token: temperature, top-k, top-p, and draws.

import { bar, button, define, element, fixed, menu, said, slider, table } from "./figure.js";
import { draw, nextToken, uniforms } from "./numbers.js";

const SHOWN = 12; // tokens, likeliest first

define("sampling", (data) => {
  const random = uniforms(data.seed);
  const state = { prompt: 0, temperature: 1, topK: 0, topP: 1 };
  const [told, below] = [said(), element("div")];
  let drawn = new Map(); // place among the likeliest -> how often
  let found;
  const show = () => {
    const { vocabulary } = data;
    const highest = found.before[0];
    const row = (place) => [
      element("span", { class: "chip" }, vocabulary[found.order[place]]),
      fixed(found.before[place], 3),
      found.after[place] > 0 ? fixed(found.after[place], 3) : "cut",
      drawn.has(place) ? String(drawn.get(place)) : "",
      bar(Math.min(1, found.after[place] / Math.max(highest, found.after[0])), "output", 5),
    ];
    const places = found.order.slice(0, SHOWN).map((_, place) => row(place));
    const elsewhere = [...drawn].filter(([place]) => place >= SHOWN).reduce((sum, [, times]) => sum + times, 0);
    const tail = (shares) => shares.slice(SHOWN).reduce((sum, share) => sum + share, 0);
    const name = `${found.order.length - places.length} others`;
    places.push([name, fixed(tail(found.before), 3), fixed(tail(found.after), 3), elsewhere ? String(elsewhere) : "", ""]);
    const head = ["next piece", "before", "after cuts", "drawn", ""];
    below.replaceChildren(table("The likeliest pieces", head, places));
    const kept = found.after.filter((share) => share > 0).length;
    const share = found.before.reduce((sum, part, place) => sum + (found.after[place] > 0 ? part : 0), 0);
    told.textContent = `${kept} of ${found.order.length} pieces are left, with ${fixed(100 * share, 1)} % of the probability.`;
    if (last !== null) told.textContent += ` Drawn: ${vocabulary[found.order[last]]}.`;
  };
  let last = null;
  const change = (name) => (value) => {
    state[name] = Number(value);
    drawn = new Map();
    last = null;
    found = nextToken(data.prompts[state.prompt].logits, state);
    show();
  };
  const more = (times) => {
    for (let time = 0; time < times; time++) {
      last = draw(found.after, random);
      drawn.set(last, (drawn.get(last) ?? 0) + 1);
    }
    show();
  };
  const prompts = data.prompts.map(({ text }, place) => [String(place), text]);
  const controls = [
    menu("after the text", prompts, "0", change("prompt")),
    slider("temperature", { min: 0, max: 3, step: 0.1, value: 1, show: (heat) => fixed(heat, 1) }, change("temperature")),
    slider("top-k", { min: 0, max: 50, step: 1, value: 0, show: (k) => (k ? String(k) : "all") }, change("topK")),
    slider("top-p", { min: 0.05, max: 1, step: 0.05, value: 1, show: (p) => fixed(p) }, change("topP")),
    button("Draw one", () => more(1)),
    button("Draw 100", () => more(100)),
  ];
  change("prompt")("0");
  return [element("div", { class: "row" }, ...controls), told, below];
});
