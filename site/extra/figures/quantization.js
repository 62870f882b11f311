// A grid over a few numbers: bits, zero point, and a largest number that stretches the step.

import { define, element, fixed, menu, said, slider, svg, table } from "./figure.js";
import { quantize, relativeError } from "./numbers.js";

const [WIDTH, EDGE] = [480, 24];

/** The numbers (top), the points of the grid (middle) and lines from each number to its point. */
function draw(numbers, grid) {
  const point = (whole) => grid.step * (whole - grid.zero);
  const [low, high] = [Math.min(point(grid.first), ...numbers), Math.max(point(grid.last), ...numbers)];
  const across = (number) => EDGE + ((number - low) / (high - low)) * (WIDTH - 2 * EDGE);
  const parts = [];
  for (let whole = grid.first; whole <= grid.last; whole++) {
    const used = grid.whole.includes(whole);
    const x = across(point(whole));
    parts.push(svg("path", { d: `M${x} 70V${used ? 94 : 84}`, stroke: "currentColor", "stroke-width": used ? 2.5 : 0.6 }));
  }
  numbers.forEach((number, place) => {
    const [x, to] = [across(number), across(grid.read[place])];
    parts.push(svg("path", { d: `M${x} 28L${to} 70`, stroke: "var(--d2l-output-line, #b3377a)", "stroke-width": 1.5 }));
    parts.push(svg("circle", { cx: x, cy: 24, r: 5, fill: "var(--d2l-query-line, #0072b2)" }));
  });
  const middle = { "text-anchor": "middle", y: 112 };
  parts.push(svg("text", { x: across(0), ...middle }, "0"), svg("text", { x: across(point(grid.last)), ...middle }, fixed(point(grid.last))));
  if (across(0) > 70) parts.push(svg("text", { x: across(point(grid.first)), ...middle }, fixed(point(grid.first))));
  const label = "numbers above, points of the grid below, and a line from each number to its point";
  return svg("svg", { viewBox: `0 0 ${WIDTH} 120`, style: "max-width: 40rem; font-size: 15px", role: "img", "aria-label": label }, ...parts);
}

define("quantization", (data) => {
  const state = { bits: data.bits, zero: true, stretch: 1 };
  const [told, picture, below] = [said(), element("div"), element("div")];
  const largest = data.numbers.reduce((best, number, place) => (Math.abs(number) > Math.abs(data.numbers[best]) ? place : best), 0);
  const show = () => {
    const numbers = data.numbers.map((number, place) => (place === largest ? number * state.stretch : number));
    const grid = quantize(numbers, state.bits, state.zero);
    picture.replaceChildren(draw(numbers, grid));
    const row = (number, place) => [fixed(number, 3), grid.whole[place], grid.read[place], grid.read[place] - number];
    const text = ([number, whole, read, error]) => [number, fixed(whole, 0), fixed(read, 3), fixed(error, 3)];
    const rows = numbers.map((number, place) => text(row(number, place)));
    below.replaceChildren(table("Each number on the grid", ["number", "stored", "read back", "error"], rows));
    const lost = grid.read.filter((read, place) => read === 0 && numbers[place] !== 0).length;
    const error = 100 * relativeError(grid.read, numbers);
    told.textContent =
      `Step ${fixed(grid.step, 4)}, zero point ${grid.zero}, relative error ${fixed(error, 2)} %; ` +
      `${lost} of ${numbers.length} numbers became 0.`;
  };
  const set = (name, read = Number) => (value) => {
    state[name] = read(value);
    show();
  };
  const controls = [
    slider("bits", { min: 2, max: 8, step: 1, value: state.bits }, set("bits")),
    menu("grid", [["zero", "with a zero point"], ["even", "the same on both sides of zero"]], "zero", set("zero", (value) => value === "zero")),
    slider("largest number times", { min: 1, max: 10, step: 0.5, value: 1, show: (times) => fixed(times, 1) }, set("stretch")),
  ];
  show();
  return [element("div", { class: "row" }, ...controls), picture, told, below];
});
