// A map of vectors in the plane to zoom into. A point shows its neighbours in all dimensions and those in the plane.

import { arrows, button, define, element, fixed, menu, said, svg, table } from "./figure.js";
import { nearestPoints } from "./numbers.js";

const [WIDTH, HEIGHT, MARGIN] = [600, 420, 30];
const ZOOM = 1.5; // a step
const CLOSEST = 40;
// A form and a colour for each group; filled and hollow take turns.
const FORMS = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "M-4-4h8v8h-8z", "M0-5L5 4H-5z", "M0-5.5L5.5 0L0 5.5L-5.5 0z"];
const COLOURS = ["query", "key", "value", "output"].map((kind) => `var(--d2l-${kind}-line)`);

/** Places in the picture of the points of a view, so that all fit. */
function placed({ x, y }) {
  const [low, high] = [[Math.min(...x), Math.min(...y)], [Math.max(...x), Math.max(...y)]];
  const unit = Math.min((WIDTH - 2 * MARGIN) / (high[0] - low[0] || 1), (HEIGHT - 2 * MARGIN) / (high[1] - low[1] || 1));
  const right = (WIDTH - unit * (high[0] - low[0])) / 2;
  const down = (HEIGHT - unit * (high[1] - low[1])) / 2;
  return x.map((across, place) => [right + unit * (across - low[0]), HEIGHT - down - unit * (y[place] - low[1])]);
}

const halo = "pointer-events: none; paint-order: stroke; stroke: var(--pst-color-background, transparent); stroke-linejoin: round";

define("word-map", ({ names, texts, groups, groupNames, views, near, what }) => {
  const state = { view: 0, chosen: 0, scale: 1, middle: [WIDTH / 2, HEIGHT / 2] };
  const [told, below] = [said(), element("div")];
  const picture = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, tabindex: 0, role: "application", "aria-roledescription": "map", style: "max-width: 40rem; border: 1px solid currentColor",
    "aria-label": `map of ${what}; arrow keys move it, plus and minus zoom, 0 shows all`,
  });
  let points = [];
  const nearest = () => (views[state.view].near ?? near)[state.chosen]; // [number, cosine], nearest first

  const draw = () => {
    const [fromX, fromY] = [WIDTH / 2 - state.scale * state.middle[0], HEIGHT / 2 - state.scale * state.middle[1]];
    const seen = points.map(([x, y]) => [fromX + state.scale * x, fromY + state.scale * y]);
    const visible = (place) => seen[place][0] > 0 && seen[place][0] < WIDTH && seen[place][1] > 0 && seen[place][1] < HEIGHT;
    const neighbours = nearest().map(([place]) => place);
    const big = Math.max(1, WIDTH / (picture.getBoundingClientRect().width || WIDTH)); // on a phone signs and names keep their size
    const parts = neighbours.map((place) => svg("path", { d: `M${seen[state.chosen].join(" ")}L${seen[place].join(" ")}`, stroke: "currentColor", "stroke-opacity": 0.6, "stroke-dasharray": "4 3" }));
    const taken = [];
    const free = (box) => taken.every(([x0, y0, x1, y1]) => box[2] < x0 || x1 < box[0] || box[3] < y0 || y1 < box[1]);
    const labels = [];
    const first = [state.chosen, ...neighbours];
    for (const place of [...first, ...names.keys()]) {
      if (!visible(place) || labels.some(({ place: other }) => other === place)) continue;
      const [x, y] = seen[place];
      const box = [x - 6 * big, y - 10 * big, x + (10 + 8 * names[place].length) * big, y + 8 * big];
      if (place !== state.chosen && !free(box)) continue;
      taken.push(box);
      labels.push({ place, x, y });
    }
    seen.forEach(([x, y], place) => {
      if (!visible(place)) return;
      const colour = COLOURS[groups[place] % COLOURS.length];
      const fill = groups[place] < FORMS.length ? colour : "none";
      const dot = svg("path", { d: FORMS[groups[place] % FORMS.length], transform: `translate(${x} ${y}) scale(${big})`, fill, stroke: colour, "stroke-width": 1.5, style: "cursor: pointer" });
      dot.addEventListener("click", () => choose(place));
      parts.push(dot);
    });
    for (const { place, x, y } of labels) {
      const weight = first.includes(place) ? "bold" : "normal";
      parts.push(svg("text", { x: x + 7 * big, y: y + 4 * big, "font-weight": weight, "font-size": 14 * big, style: halo, "stroke-width": 3 * big }, names[place]));
    }
    const [x, y] = seen[state.chosen];
    parts.push(svg("circle", { cx: x, cy: y, r: 10 * big, fill: "none", stroke: "currentColor", "stroke-width": 2.5 }));
    picture.replaceChildren(...parts);
    picture.style.touchAction = state.scale > 1 ? "none" : "auto"; // the finger moves the page until the map is zoomed
  };

  const tell = () => {
    const real = nearest();
    const flat = nearestPoints(points, state.chosen, real.length);
    const both = real.filter(([place]) => flat.includes(place)).length;
    const shown = ([place, cosine]) => `${names[place]} ${fixed(cosine)}`;
    const text = texts ? ` (“${texts[state.chosen]}”)` : "";
    const whole = (place) => (texts ? `${names[place]}: ${texts[place]}` : names[place]);
    told.textContent =
      `${names[state.chosen]}${text}: nearest by cosine ${real.slice(0, 3).map(shown).join(", ")}. ` +
      `Of its ${real.length} nearest, ${both} ${both === 1 ? "is" : "are"} also among the ${flat.length} nearest on the map. Zoom ${fixed(state.scale, 1)}.`;
    const rows = real.map(([place, cosine], row) => [whole(place), fixed(cosine), names[flat[row]], flat.includes(place) ? "yes" : "no"]);
    below.replaceChildren(table(`Neighbours of “${names[state.chosen]}”`, ["by cosine", "cosine", "on the map", "both?"], rows));
  };
  const show = () => {
    draw();
    tell();
  };
  const move = (right, down) => {
    const inside = (number, most) => Math.min(most, Math.max(0, number));
    state.middle = [inside(state.middle[0] + right / state.scale, WIDTH), inside(state.middle[1] + down / state.scale, HEIGHT)];
    draw();
  };
  const zoom = (times, about = points[state.chosen]) => {
    state.scale = Math.min(CLOSEST, Math.max(1, state.scale * times));
    state.middle = state.scale === 1 ? [WIDTH / 2, HEIGHT / 2] : about;
    show();
  };
  const choose = (place) => {
    state.chosen = place;
    if (state.scale > 1) state.middle = points[place];
    search.value = names[place];
    show();
  };

  arrows(picture, (right, up) => move(40 * right, -40 * up));
  picture.addEventListener("keydown", ({ key }) => {
    if (key === "+" || key === "=") zoom(ZOOM);
    if (key === "-") zoom(1 / ZOOM);
    if (key === "0") zoom(0);
  });
  const unit = () => WIDTH / picture.getBoundingClientRect().width;
  picture.addEventListener("pointermove", ({ buttons, movementX, movementY }) => {
    if (buttons && state.scale > 1) move(-movementX * unit(), -movementY * unit());
  });

  const options = element("datalist", { id: "names" }, ...names.map((name) => element("option", { value: name })));
  const search = element("input", { list: "names", style: "width: 11rem; max-width: 100%; background: transparent; border: 1px solid currentColor; border-radius: 4px; padding: 0.2rem" });
  search.addEventListener("change", () => {
    const place = names.indexOf(search.value.trim().toLowerCase());
    if (place >= 0) choose(place);
    else told.textContent = `“${search.value}” is not on this map.`;
  });
  const view = (number) => {
    state.view = Number(number);
    points = placed(views[number]);
    state.middle = state.scale === 1 ? state.middle : points[state.chosen];
    show();
  };
  view(0);
  search.value = names[0];
  new ResizeObserver(draw).observe(picture);
  const controls = [
    element("label", {}, `${what.replace(/s$/, "")} `, search), options,
    menu("map", views.map(({ name }, number) => [String(number), name]), "0", view),
    button("Zoom in", () => zoom(ZOOM)), button("Zoom out", () => zoom(1 / ZOOM)), button("Whole map", () => zoom(0)),
  ];
  const sign = (number) => {
    const colour = COLOURS[number % COLOURS.length];
    const form = svg("path", { d: FORMS[number % FORMS.length], transform: "translate(7 7)", fill: number < FORMS.length ? colour : "none", stroke: colour, "stroke-width": 1.5 });
    const drawn = svg("svg", { viewBox: "0 0 14 14", "aria-hidden": "true", style: "display: inline-block; width: 14px" }, form);
    return element("span", {}, drawn, ` ${groupNames[number]}`);
  };
  const legend = element("div", { class: "row" }, ...groupNames.map((_, number) => sign(number)));
  return [element("div", { class: "row" }, ...controls), picture, legend, told, below];
});
