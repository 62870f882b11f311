// Texts are put into rows of equal width, one after another: each into the first row that has room.

import { button, define, element, fixed, menu, said, svg, table } from "./figure.js";
import { firstFit } from "./numbers.js";

const [WIDTH, HEIGHT, LEFT] = [420, 18, 46];
const COLOURS = ["query", "key", "value", "hidden", "weight", "output"];

/** The rows with the texts that they hold; the newest has a thick edge. */
function draw(rows, lengths, width, newest) {
  const parts = [];
  rows.forEach((texts, row) => {
    const y = row * (HEIGHT + 4);
    parts.push(svg("text", { x: 0, y: y + 14 }, `row ${row + 1}`));
    parts.push(svg("rect", { x: LEFT, y, width: WIDTH - LEFT - 2, height: HEIGHT, fill: "none", stroke: "currentColor", "stroke-opacity": 0.4 }));
    let x = LEFT;
    for (const text of texts) {
      const wide = (lengths[text] / width) * (WIDTH - LEFT - 2);
      const edge = text === newest ? { stroke: "currentColor", "stroke-width": 2.5 } : { stroke: "#333", "stroke-width": 0.6 };
      parts.push(svg("rect", { x, y, width: wide, height: HEIGHT, fill: `var(--d2l-${COLOURS[text % COLOURS.length]})`, ...edge }));
      if (wide > 18) parts.push(svg("text", { x: x + wide / 2, y: y + 14, "text-anchor": "middle", class: "in" }, String(text + 1)));
      x += wide;
    }
  });
  const label = `${rows.length} rows and the texts in them; the line above tells how full they are`;
  return svg("svg", { viewBox: `0 -2 ${WIDTH} ${Math.max(1, rows.length) * (HEIGHT + 4) + 2}`, style: "max-width: 36rem", role: "img", "aria-label": label }, ...parts);
}

define("packing", (data) => {
  const [told, picture, below] = [said(), element("div"), element("div")];
  const state = { set: 0, order: "come" };
  let [lengths, placed] = [[], 0];
  const show = () => {
    const here = lengths.slice(0, placed);
    const { rows, places } = firstFit(here, data.width);
    picture.replaceChildren(draw(rows, here, data.width, placed - 1));
    const sum = here.reduce((total, length) => total + length, 0);
    const padding = (count, width) => `${fixed(100 * (1 - sum / (count * width)), 1)} %`;
    const longest = Math.max(...here);
    told.textContent =
      `Text ${placed} of ${lengths.length} has ${here.at(-1)} tokens and goes into row ${places.at(-1) + 1}. ` +
      `Padding: ${padding(rows.length, data.width)}.`;
    below.replaceChildren(
      table("Padding so far", ["rows", "count", "padding"], [
        [`shared, of ${data.width}`, String(rows.length), padding(rows.length, data.width)],
        [`one a text, of ${longest}`, String(placed), padding(placed, longest)],
      ]),
    );
    for (const [node, off] of [[next, placed === lengths.length], [end, placed === lengths.length], [back, placed === 1], [start, placed === 1]]) node.disabled = off;
  };
  const go = (to) => () => {
    placed = Math.min(lengths.length, Math.max(1, to()));
    show();
  };
  const read = (name) => (value) => {
    state[name] = value;
    lengths = [...data.sets[state.set].lengths];
    if (state.order === "long") lengths.sort((a, b) => b - a);
    go(() => lengths.length)();
  };
  const [next, back] = [button("Next text", go(() => placed + 1)), button("Back", go(() => placed - 1))];
  const [start, end] = [button("From the start", go(() => 1)), button("All texts", go(() => lengths.length))];
  const sets = data.sets.map(({ name }, number) => [String(number), name]);
  const choices = [
    menu("texts", sets, "0", read("set")),
    menu("order", [["come", "as they come"], ["long", "the longest first"]], "come", read("order")),
  ];
  read("set")(0);
  return [element("div", { class: "row" }, ...choices, start, next, back, end), told, picture, below];
});
