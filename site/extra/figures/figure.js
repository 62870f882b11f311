// What all figures to play with share: reading the data of the page, elements, controls, looks.
//
// A figure is <d2l-NAME> with its data as JSON and a table (d2lbert.plots.Interactive). Its module calls define(), and the
// drawing takes the place of the table. If the drawing fails, the table stays. Nothing is asked of another machine.

const STYLE = `
  :host { display: block; line-height: 1.4; }
  .row { display: flex; flex-wrap: wrap; gap: 0.4rem 1.2rem; align-items: center; margin: 0.4rem 0; }
  .row > label { max-width: 100%; }
  .side { flex: 1 1 16rem; min-width: 0; }
  svg { display: block; width: 100%; height: auto; max-width: 30rem; font-size: 13px; }
  svg text { fill: currentColor; }
  svg text.in { fill: #111; }
  button, select, textarea, input { font: inherit; color: inherit; }
  button, select, textarea { background: transparent; border: 1px solid currentColor; border-radius: 4px; padding: 0.2rem 0.7rem; }
  select { max-width: 100%; }
  select option { color: #111; background: white; }
  textarea { width: 100%; box-sizing: border-box; }
  button:disabled { opacity: 0.5; }
  button[aria-pressed="true"] { font-weight: bold; outline: 2px solid currentColor; }
  input[type="range"] { width: 8rem; max-width: 100%; accent-color: var(--d2l-query-line, #0072b2); vertical-align: middle; }
  input[type="checkbox"] { width: 1.3em; height: 1.3em; vertical-align: middle; accent-color: var(--d2l-query-line, #0072b2); }
  button, select, input[type="range"] { min-height: 28px; }
  output { font-variant-numeric: tabular-nums; }
  :focus-visible { outline: 3px solid var(--d2l-query-line, #0072b2); outline-offset: 1px; }
  .scroll { overflow-x: auto; }
  table { min-width: 16rem; border-collapse: collapse; font-variant-numeric: tabular-nums; }
  caption { text-align: left; font-size: 0.9em; }
  th, td { padding: 0.1rem 0.6rem; text-align: right; border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent); }
  th:first-child, td:first-child, td:has(.bar), td:has(.chip) { text-align: left; }
  tr.now > * { background: var(--d2l-weight, #f7b7a3); color: #111; }
  .chip { display: inline-block; padding: 0 0.35em; margin: 1px; border: 1px solid #333; border-radius: 4px; color: #111;
    background: var(--d2l-text, #f0f0f0); white-space: pre; }
  .query { background: var(--d2l-query, #a9d6f5); }
  .key { background: var(--d2l-key, #ffd78a); }
  .value { background: var(--d2l-value, #a8e0c8); }
  .hidden { background: var(--d2l-hidden, #d9d2ee); }
  .weight { background: var(--d2l-weight, #f7b7a3); }
  .output { background: var(--d2l-output, #f3c6de); }
  .picks > [role="radio"] { cursor: pointer; font: inherit; }
  .picks > [aria-checked="true"] { outline: 3px solid var(--d2l-query-line, #0072b2); outline-offset: 0; }
  .bar { display: inline-block; height: 0.8em; vertical-align: baseline; border: 1px solid #333; box-sizing: border-box; }
  .said { min-height: 1.4em; margin: 0.3rem 0; }
  @media (max-width: 480px) { th, td { padding: 0.1rem 0.3rem; } }
  @media (forced-colors: active) { .chip, .bar { border-color: CanvasText; color: CanvasText; } }
`;

const SVG = "http://www.w3.org/2000/svg";

/** Register <d2l-NAME>. `draw` gets the data and returns the nodes to show. */
export function define(name, draw) {
  customElements.define(
    `d2l-${name}`,
    class extends HTMLElement {
      connectedCallback() {
        if (this.shadowRoot) return; // moved within the page
        const nodes = draw(JSON.parse(this.querySelector('script[type="application/json"]').textContent));
        this.attachShadow({ mode: "open" }).append(element("style", {}, STYLE), ...nodes);
      }
    },
  );
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Return an element of HTML; an attribute "onclick" is a function to call. */
export const element = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

/** Return an element of SVG. */
export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

/** Return a number with so many decimals, a true minus, and no minus before a zero. */
export function fixed(number, digits = 2) {
  const text = number.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/**
 * Return a labelled slider. `options` has min, max, step, value, and `show`, which writes a value as text. `changed` gets
 * each new value. The node has set(value), which moves the slider without a call.
 */
export function slider(label, options, changed) {
  const { show = String, ...attributes } = options;
  const told = element("output", {}, show(options.value));
  const input = element("input", { type: "range", ...attributes, "aria-valuetext": show(options.value) });
  const tell = () => {
    told.textContent = show(Number(input.value));
    input.setAttribute("aria-valuetext", told.textContent);
  };
  input.addEventListener("input", () => {
    tell();
    changed(Number(input.value));
  });
  const node = element("label", {}, `${label} `, input, " ", told);
  node.set = (value) => {
    input.value = value;
    tell();
  };
  return node;
}

/** Return a labelled menu of [value, text]; `changed` gets the value chosen. */
export function menu(label, choices, chosen, changed) {
  const options = choices.map(([value, text]) => element("option", { value, selected: value === chosen }, text));
  const select = element("select", { onchange: () => changed(select.value) }, ...options);
  return element("label", {}, `${label} `, select);
}

/** Return a labelled box to tick. */
export function tick(label, checked, changed) {
  const input = element("input", { type: "checkbox", checked, onchange: () => changed(input.checked) });
  return element("label", {}, input, ` ${label}`);
}

/** Return a button. */
export const button = (text, pressed) => element("button", { type: "button", onclick: pressed }, text);

/** Return a table that scrolls inside itself; `rows` are lists of texts or nodes; row number `now` is marked. */
export function table(caption, head, rows, now = -1) {
  const cells = (row) => row.map((cell, column) => element(column ? "td" : "th", column ? {} : { scope: "row" }, cell));
  const heads = head.map((name) => element("th", { scope: "col" }, name));
  const body = rows.map((row, number) => element("tr", number === now ? { class: "now" } : {}, ...cells(row)));
  const whole = element("table", {}, element("caption", {}, caption), element("thead", {}, element("tr", {}, ...heads)));
  whole.append(element("tbody", {}, ...body));
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, whole);
}

/** Return a bar, its length a share of `most` characters. */
export function bar(share, kind, most = 8) {
  return element("span", { class: `bar ${kind}`, style: `width: ${(most * share).toFixed(2)}em`, "aria-hidden": "true" });
}

/** Return the line in which a figure says, to the eye and to a screen reader, what has changed. */
export const said = () => element("p", { class: "said", role: "status", "aria-live": "polite" });

/** Move something by the arrow keys: `moved` gets the steps right and up, ten times as long with Shift. */
export function arrows(node, moved) {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  node.addEventListener("keydown", (event) => {
    if (!(event.key in steps)) return;
    event.preventDefault();
    const [right, up] = steps[event.key];
    moved(right * (event.shiftKey ? 10 : 1), up * (event.shiftKey ? 10 : 1));
  });
}

/** Move something by mouse or finger: `moved` gets the place in the units of the picture that holds it. */
export function drags(node, picture, moved) {
  node.style.touchAction = "none"; // the finger moves this, not the page
  node.addEventListener("pointerdown", (event) => node.setPointerCapture(event.pointerId));
  node.addEventListener("pointermove", (event) => {
    if (!node.hasPointerCapture(event.pointerId)) return;
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
    moved(place.x, place.y);
  });
}

/**
 * Return a group of nodes of which one is chosen: by a click, by the arrow keys (up and down move by `columns`), Home and
 * End, and with `hover` also by the mouse above it. `changed` gets the number of the chosen one. The node has set(number),
 * which chooses without a call.
 */
export function picks(label, nodes, chosen, changed, { columns = 1, hover = false } = {}) {
  const group = element("div", { class: "picks", role: "radiogroup", "aria-label": label }, ...nodes);
  group.set = (number) => {
    chosen = number;
    nodes.forEach((node, place) => {
      node.setAttribute("aria-checked", place === number);
      node.setAttribute("tabindex", place === number ? 0 : -1);
    });
  };
  const pick = (number) => {
    if (number === chosen) return;
    group.set(number);
    changed(number);
  };
  nodes.forEach((node, place) => {
    node.setAttribute("role", "radio");
    node.addEventListener("click", () => pick(place));
    if (hover) node.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && pick(place));
  });
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  group.addEventListener("keydown", (event) => {
    const to = { Home: 0, End: nodes.length - 1 }[event.key] ?? chosen + steps[event.key];
    if (!(to in nodes)) return;
    event.preventDefault();
    pick(to);
    nodes[to].focus();
  });
  group.set(chosen);
  return group;
}
