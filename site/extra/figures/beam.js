// Beam search over a small table of next tokens: how wide, how far, and how much a long sentence is helped.

import { define, element, fixed, menu, said, slider, svg, table } from "./figure.js";
import { beamSearch } from "./numbers.js";

const [WIDTH, HEIGHT, GAP] = [104, 26, 8];
const COLOURS = { "goes on": "var(--d2l-hidden, #d9d2ee)", ends: "var(--d2l-output, #f3c6de)", dropped: "none" };
const DROPPED = 3; // shown in each column

/** The beginnings of each length as a column of boxes, each joined to the one that it grew from. */
function draw(columns, name) {
  const parts = [];
  const places = new Map([["", [0, 0]]]);
  const box = (text, chance, [x, y], fate) => {
    const dashed = fate === "dropped" ? { "stroke-dasharray": "3 3", "stroke-opacity": 0.6 } : {};
    parts.push(svg("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 4, fill: COLOURS[fate] ?? "var(--d2l-text, #f0f0f0)", stroke: "currentColor", ...dashed }));
    parts.push(svg("text", { x: x + 5, y: y + 17, class: fate === "dropped" ? "" : "in" }, text.length > 9 ? `${text.slice(0, 8)}…` : text));
    parts.push(svg("text", { x: x + WIDTH - 4, y: y + 17, "text-anchor": "end", "font-size": 11, class: fate === "dropped" ? "" : "in" }, chance));
  };
  box("begin", "", [0, 0], "begin");
  columns.forEach((column, at) => {
    column.forEach(({ tokens, score, fate }, row) => {
      const [x, y] = [(at + 1) * (WIDTH + 40), row * (HEIGHT + GAP)];
      const [fromX, fromY] = places.get(tokens.slice(0, -1).join(" "));
      const line = `M${fromX + WIDTH} ${fromY + HEIGHT / 2}L${x} ${y + HEIGHT / 2}`;
      parts.push(svg("path", { d: line, stroke: "currentColor", "stroke-opacity": fate === "dropped" ? 0.3 : 1, "stroke-width": fate === "dropped" ? 1 : 2 }));
      places.set(tokens.join(" "), [x, y]);
      box(name(tokens.at(-1)).trim(), fixed(Math.exp(score), 3), [x, y], fate);
    });
  });
  const [wide, high] = [(columns.length + 1) * (WIDTH + 40) - 38, Math.max(...columns.map((column) => column.length)) * (HEIGHT + GAP)];
  const size = { viewBox: `-1 -1 ${wide} ${high}`, style: `width: ${wide}px; max-width: none`, role: "img" };
  return svg("svg", { ...size, "aria-label": "the tree of beginnings; the table below tells its last column" }, ...parts);
}

define("beam", (data) => {
  const state = { model: 0, k: 1, alpha: 0, far: 1 };
  const [told, picture, below] = [said(), element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "the tree" }), element("div")];
  const show = () => {
    const { next, names, joint, end, longest } = data.models[state.model];
    const name = (token) => names?.[token] ?? token;
    const text = (tokens) => tokens.map(name).join(joint).trim();
    const { best, steps } = beamSearch(next, state.k, end, longest, state.alpha);
    const shown = steps.slice(0, state.far).map((grown) => {
      const dropped = grown.filter(({ fate }) => fate === "dropped").slice(0, DROPPED);
      return grown.filter((one) => one.fate !== "dropped" || dropped.includes(one));
    });
    picture.replaceChildren(draw(shown, name));
    const rows = shown.at(-1).map(({ tokens, score, fate }) => [text(tokens), fixed(Math.exp(score), 3), fate]);
    below.replaceChildren(table(`Beginnings after token ${shown.length}`, ["beginning", "probability", "fate"], rows));
    const found = best ? `“${text(best.tokens)}” with the score ${fixed(best.final, 3)}` : "no finished sentence";
    told.textContent = `Whole search with k = ${state.k}: ${found}. Shown: ${shown.length} of ${steps.length} tokens.`;
  };
  const set = (key) => (value) => {
    state[key] = Number(value);
    show();
  };
  const far = element("span");
  const model = (number) => {
    const most = data.models[number].longest;
    far.replaceChildren(slider("tokens shown", { min: 1, max: most, step: 1, value: most }, set("far")));
    state.far = most;
    set("model")(number);
  };
  const controls = [
    menu("model", data.models.map(({ name }, number) => [String(number), name]), "0", model),
    slider("beginnings kept k", { min: 1, max: data.widest, step: 1, value: 1 }, set("k")),
    slider("length penalty α", { min: 0, max: 2, step: 0.2, value: 0, show: (alpha) => fixed(alpha, 1) }, set("alpha")),
    far,
  ];
  model(0);
  return [element("div", { class: "row" }, ...controls), told, picture, below];
});
