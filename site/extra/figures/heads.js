// All heads of an encoder over a sentence: a small map of each, and for one of them where every token looks.

import { bar, define, element, fixed, menu, picks, said, svg, table } from "./figure.js";
import { HABITS, habits } from "./numbers.js";

const LEVELS = [10, 25, 50, 75]; // percent: a cell of a small map is drawn once for each that its weight reaches
const RANKED = 5; // heads that are numbered for a habit
const SHOWN = 5; // tokens that a token looks at most
const [LINE, LEFT, RIGHT, WIDTH] = [24, 100, 220, 320];

/** One head as rows of squares: a row asks, a column answers. */
function small(weights) {
  const size = weights.length;
  const cells = (level) => weights.flatMap((row, y) => row.map((weight, x) => (weight >= level ? `M${x} ${y}h1v1h-1z` : ""))).join("");
  const layers = LEVELS.map((level) => svg("path", { d: cells(level), fill: "var(--d2l-query-line, #0072b2)", "fill-opacity": 0.4 }));
  return svg("svg", { viewBox: `0 0 ${size} ${size}`, "aria-hidden": "true", style: "pointer-events: none" }, ...layers);
}

/** Lines from the tokens that ask, at the left, to those that answer; the line is as thick as the weight. */
function lines(tokens, weights, asking) {
  const y = (place) => LINE * (place + 0.5);
  const parts = [];
  weights.forEach((row, from) => {
    const chosen = from === asking;
    row.forEach((weight, to) => {
      if (weight < (chosen ? 1 : 10)) return;
      const look = chosen ? { stroke: "var(--d2l-query-line, #0072b2)" } : { stroke: "currentColor", "stroke-opacity": 0.15 };
      parts[chosen ? "push" : "unshift"](svg("path", { d: `M${LEFT} ${y(from)}L${RIGHT} ${y(to)}`, "stroke-width": 0.5 + weight / 12, ...look }));
    });
  });
  tokens.forEach((token, place) => {
    const bold = place === asking ? { "font-weight": "bold" } : {};
    const seen = weights[asking][place] >= 10 ? { "font-weight": "bold" } : {};
    parts.push(svg("text", { x: LEFT - 6, y: y(place) + 4, "text-anchor": "end", ...bold }, place === asking ? `▸ ${token}` : token));
    parts.push(svg("text", { x: RIGHT + 6, y: y(place) + 4, ...seen }, token));
  });
  const size = { viewBox: `0 0 ${WIDTH} ${LINE * tokens.length}`, role: "img" };
  return svg("svg", { ...size, "aria-label": "where each token looks in this head; the table tells it for the chosen token" }, ...parts);
}

define("heads", ({ sentences, layers, heads, first }) => {
  const state = { sentence: 0, head: first[0] * heads + first[1], asking: first[2], habit: "none" };
  const [told, asks, picture, below] = [said(), element("div"), element("div", { class: "side" }), element("div", { class: "side" })];
  const grid = element("div");
  let all; // (layers * heads, L, L) of the sentence
  const name = (head) => `block ${Math.floor(head / heads) + 1}, head ${(head % heads) + 1}`;
  const means = () => all.map((weights) => habits(weights)[HABITS.indexOf(state.habit)]);
  const ranked = () => {
    const shares = means();
    return shares.map((_, head) => head).sort((a, b) => shares[b] - shares[a] || a - b).slice(0, RANKED);
  };
  const show = () => {
    const { tokens } = sentences[state.sentence];
    const weights = all[state.head];
    const row = weights[state.asking];
    const order = row.map((_, place) => place).sort((a, b) => row[b] - row[a] || a - b).slice(0, SHOWN);
    picture.replaceChildren(lines(tokens, weights, state.asking));
    const rows = order.map((place) => [`${tokens[place]} (${place + 1})`, `${row[place]} %`, bar(row[place] / 100, "weight", 5)]);
    const parts = [table(`Where “${tokens[state.asking]}” looks in ${name(state.head)}`, ["token", "weight", ""], rows)];
    if (state.habit !== "none") {
      const shares = means();
      const best = ranked().map((head, rank) => [`${rank + 1}: ${name(head)}`, `${fixed(shares[head], 1)} %`, bar(shares[head] / 100, "hidden", 5)]);
      parts.push(table(`Heads that look most at ${state.habit}, mean over the tokens`, ["head", "weight", ""], best, ranked().indexOf(state.head)));
    }
    below.replaceChildren(...parts);
    const looks = order.slice(0, 3).map((place) => `${tokens[place]} (${row[place]} %)`);
    told.textContent = `In ${name(state.head)}, “${tokens[state.asking]}” looks at ${looks.join(", ")}.`;
    if (state.habit !== "none") told.textContent += ` It looks at ${state.habit} with ${fixed(means()[state.head], 1)} % on average.`;
  };
  const drawGrid = () => {
    const best = state.habit === "none" ? [] : ranked();
    const cell = (weights, head) => {
      const rank = best.indexOf(head) + 1;
      const number = rank ? element("span", { class: "rank" }, String(rank)) : "";
      const about = rank ? `, number ${rank} of those that look at ${state.habit}` : "";
      return element("button", { type: "button", class: "head", "aria-label": name(head) + about }, small(weights), number);
    };
    const choose = (head) => {
      state.head = head;
      show();
    };
    const group = picks("heads: a row for each block", all.map(cell), state.head, choose, { columns: heads });
    group.style.gridTemplateColumns = `repeat(${heads}, minmax(0, 1fr))`;
    group.classList.add("grid");
    grid.replaceChildren(group);
  };
  const sentence = (number) => {
    state.sentence = Number(number);
    const { tokens, weights } = sentences[state.sentence];
    const length = tokens.length;
    const row = (head, place) => weights.slice((head * length + place) * length, (head * length + place + 1) * length);
    all = Array.from({ length: layers * heads }, (_, head) => tokens.map((_, place) => row(head, place)));
    state.asking = Math.min(state.asking, length - 1);
    const choose = (place) => {
      state.asking = place;
      show();
    };
    const chips = tokens.map((token) => element("button", { type: "button", class: "chip query", style: "padding: 0.15rem 0.4rem" }, token));
    asks.replaceChildren(picks("token that asks", chips, state.asking, choose, { hover: true }));
    drawGrid();
    show();
  };
  sentence(0);
  const habit = (chosen) => {
    state.habit = chosen;
    drawGrid();
    show();
  };
  const controls = [
    menu("sentence", sentences.map(({ tokens }, number) => [String(number), tokens.slice(1, -1).join(" ")]), "0", sentence),
    menu("number the heads that look most at", [["none", "nothing in particular"], ...HABITS.map((one) => [one, one])], "none", habit),
  ];
  const style = element("style", {}, `
    .grid { display: grid; gap: 2px; max-width: 34rem; }
    .grid .head { position: relative; padding: 1px; border-radius: 2px; border: 1px solid color-mix(in srgb, currentColor 45%, transparent); min-height: 0; }
    table { white-space: nowrap; }
    caption { white-space: normal; }
    .grid .rank { position: absolute; right: 0; top: 0; padding: 0 0.25em; font-size: 0.8em; color: #111; background: var(--d2l-key, #ffd78a); border: 1px solid #333; }`);
  return [style, element("div", { class: "row" }, ...controls), grid, element("p", {}, "Token that asks:"), asks, told,
    element("div", { class: "row", style: "align-items: flex-start" }, picture, below)];
});
