// One query asks a few keys in the plane: drag the query, slide the temperature.

import { arrows, bar, define, drags, element, fixed, said, slider, svg, table } from "./figure.js";
import { attend } from "./numbers.js";

const UNIT = 62; // pixels
const STEP = 0.1; // of an arrow key

/** A picture of the plane between two corners; y grows upwards. */
function plane(label, low, high) {
  const [width, height] = [high[0] - low[0], high[1] - low[1]];
  const picture = svg("svg", { viewBox: `0 0 ${width * UNIT} ${height * UNIT}`, role: "group", "aria-label": label });
  const place = ([x, y]) => [(x - low[0]) * UNIT, (high[1] - y) * UNIT];
  const point = (x, y) => [x / UNIT + low[0], high[1] - y / UNIT];
  return { picture, place, point };
}

function arrow(colour) {
  const head = svg("path", { fill: colour });
  const shaft = svg("path", { stroke: colour, "stroke-width": 2.5 });
  const node = svg("g", {}, shaft, head);
  node.point = ([x0, y0], [x, y]) => {
    const length = Math.hypot(x - x0, y - y0) || 1;
    const [right, down] = [(9 * (x - x0)) / length, (9 * (y - y0)) / length];
    const corners = [[x, y], [x - right - down / 2, y - down + right / 2], [x - right + down / 2, y - down - right / 2]];
    head.setAttribute("d", `M${corners.map((corner) => corner.join(" ")).join("L")}Z`);
    shaft.setAttribute("d", `M${x0} ${y0}L${x - right} ${y - down}`);
  };
  return node;
}

const label = (text, [x, y], right = 6, down = -6) => svg("text", { x: x + right, y: y + down }, text);

/** Left: keys and query. `moved` gets the query's new place. */
function asking(data, moved) {
  const most = (axis) => Math.max(...data.keys.map((key) => Math.abs(key[axis])), Math.abs(data.query[axis]), 1) + 0.6;
  const [x, y] = [most(0), most(1)];
  const { picture, place, point } = plane("query and keys", [-x, -y], [x, y]);
  const [right, down] = place([0, 0]);
  const axes = `M0 ${down}H${2 * right}M${right} 0V${2 * down}`;
  picture.append(svg("path", { d: axes, stroke: "currentColor", "stroke-opacity": 0.25 }));
  data.keys.forEach((key, number) => {
    const drawn = arrow("var(--d2l-key-line, #b37400)");
    drawn.point(place([0, 0]), place(key));
    picture.append(drawn, label(`k${number + 1}`, place(key)));
  });
  const shown = arrow("var(--d2l-query-line, #0072b2)");
  const handle = svg("circle", {
    r: 13, fill: "var(--d2l-query-line, #0072b2)", "fill-opacity": 0.35, tabindex: 0, role: "slider", style: "cursor: grab",
    "aria-label": "query; the arrow keys move it", "aria-valuemin": (-x).toFixed(1), "aria-valuemax": x.toFixed(1),
  });
  const name = svg("text", {}, "q");
  picture.append(shown, handle, name);
  const inside = (number, limit) => Math.min(limit, Math.max(-limit, number));
  const move = (query) => moved([inside(query[0], x), inside(query[1], y)]);
  drags(handle, picture, (...at) => move(point(...at)));
  const show = (query) => {
    const [across, along] = place(query);
    shown.point(place([0, 0]), [across, along]);
    for (const [attribute, value] of [["cx", across], ["cy", along]]) handle.setAttribute(attribute, value);
    handle.setAttribute("aria-valuenow", query[0].toFixed(2));
    handle.setAttribute("aria-valuetext", `${fixed(query[0])} to the right, ${fixed(query[1])} up`);
    for (const [attribute, value] of [["x", across + 15], ["y", along - 8]]) name.setAttribute(attribute, value);
  };
  return { picture, handle, move, show };
}

/** Right: the values, as large as their weights, and the context. */
function answering(data) {
  const along = (axis) => data.values.map((value) => value[axis]);
  const low = [Math.min(...along(0)) - 0.8, Math.min(...along(1)) - 0.8];
  const high = [Math.max(...along(0)) + 0.8, Math.max(...along(1)) + 0.8];
  const { picture, place } = plane("values and context", low, high);
  picture.setAttribute("role", "img");
  const corners = data.values.map((value) => place(value).join(" ")).join("L");
  picture.append(svg("path", { d: `M${corners}Z`, fill: "currentColor", "fill-opacity": 0.06, stroke: "currentColor" }));
  const dots = data.values.map((value, number) => {
    const [cx, cy] = place(value);
    const dot = svg("circle", { cx, cy, fill: "var(--d2l-value-line, #009e73)" });
    picture.append(dot, label(`v${number + 1}`, [cx, cy], 10, cy < 60 ? -22 : 36));
    return dot;
  });
  const star = svg("path", { d: starred(12), fill: "var(--d2l-output-line, #b3377a)", stroke: "white" });
  const name = svg("text", { x: 14, y: -8 }, "c");
  const context = svg("g", {}, star, name);
  picture.append(context);
  const show = (found) => {
    found.weights.forEach((weight, number) => dots[number].setAttribute("r", 3 + 22 * Math.sqrt(weight)));
    context.setAttribute("transform", `translate(${place(found.context).join(" ")})`);
  };
  return { picture, show };
}

function starred(radius) {
  const corner = (turn) => [Math.sin((turn * Math.PI) / 5), -Math.cos((turn * Math.PI) / 5)].map((side) => (turn % 2 ? 0.45 : 1) * radius * side);
  return `M${Array.from({ length: 10 }, (_, turn) => corner(turn).join(" ")).join("L")}Z`;
}

define("attention", (data) => {
  let [query, temperature] = [data.query, data.temperature];
  const [told, below] = [said(), element("div")];
  const show = () => {
    const found = attend(query, data.keys, data.values, temperature);
    left.show(query);
    right.show(found);
    const rows = found.weights.map((weight, row) => [`k${row + 1}`, fixed(found.scores[row]), fixed(weight, 3), bar(weight, "weight")]);
    below.replaceChildren(table("Scores and weights", ["key", "score", "weight", ""], rows));
    const numbers = (list, digits) => list.map((number) => fixed(number, digits)).join(", ");
    told.textContent = `Query (${numbers(query, 2)}), weights ${numbers(found.weights, 3)}, context (${numbers(found.context, 3)}).`;
  };
  const left = asking(data, (moved) => {
    query = moved;
    show();
  });
  arrows(left.handle, (right, up) => left.move([query[0] + STEP * right, query[1] + STEP * up]));
  const right = answering(data);
  const options = { min: -1.3, max: 2, step: 0.05, value: Math.log10(temperature), show: (power) => fixed(10 ** power) };
  const heat = slider("temperature τ", options, (power) => {
    temperature = 10 ** power;
    show();
  });
  show();
  const pictures = [left, right].map((one) => element("div", { class: "side" }, one.picture));
  return [element("div", { class: "row" }, heat), element("div", { class: "row" }, ...pictures), told, below];
});
