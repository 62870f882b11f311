// What pretraining takes: memory at each worker, time and money, from a few numbers of a plan.

import { define, element, fixed, menu, said, slider, table, tick } from "./figure.js";
import { budget } from "./numbers.js";

const BIG = 1e9;

/** A number with three digits that count, and no power of ten; a whole one without decimals. */
function readable(number) {
  if (Math.abs(number - Math.round(number)) < 1e-9) return Math.round(number).toLocaleString("en-US");
  if (number >= 100) return Math.round(number).toLocaleString("en-US");
  return number >= 10 ? fixed(number, 1) : fixed(number, 2);
}

/** Hours in the unit that a person would use. */
function spell(hours) {
  if (hours < 2) return `${readable(60 * hours)} minutes`;
  if (hours < 72) return `${readable(hours)} hours`;
  return hours < 24 * 730 ? `${readable(hours / 24)} days` : `${readable(hours / 24 / 365)} years`;
}

define("budget", (data) => {
  const plan = { model: 0, length: 0, ...data.plan };
  const [told, below] = [said(), element("div")];
  const show = () => {
    const { parameters, block, activations } = data.models[plan.model];
    const found = budget({ parameters, block, activations: activations[plan.length] }, plan);
    const fits = found.memory <= plan.memory;
    const gigabytes = (bytes) => `${readable(bytes / BIG)} GB`;
    const rows = [
      ["weights, gradients, averages", gigabytes(found.state)],
      ["activations of its rows", gigabytes(found.activations)],
      ["memory of a worker", `${gigabytes(found.memory)} of ${gigabytes(plan.memory)}`],
      ["operations", found.operations.toExponential(1)],
      ["time", spell(found.hours)],
      ["price", `${readable(found.dollars)} dollars`],
    ];
    below.replaceChildren(table("What the plan takes", ["part", "amount"], rows, fits ? -1 : 2));
    told.textContent = `The plan ${fits ? "fits" : "does not fit"}: ${rows[2][1]}. It takes ${rows[4][1]} and costs ${rows[5][1]}.`;
  };
  const set = (key, read = Number) => (value) => {
    plan[key] = read(value);
    show();
  };
  const power = (base) => (exponent) => base ** Number(exponent);
  const log = (label, key, base, min, max, unit, step = 1) => {
    const value = Math.log(plan[key]) / Math.log(base);
    return slider(label, { min, max, step, value, show: (exponent) => `${readable(base ** exponent / unit[0])}${unit[1]}` }, set(key, power(base)));
  };
  const plain = (label, key, min, max, step, unit) => {
    const shown = (number) => `${readable(number)}${unit[1]}`;
    return slider(label, { min, max, step, value: plan[key] / unit[0], show: shown }, set(key, (value) => Number(value) * unit[0]));
  };
  const choices = (names) => names.map((name, number) => [String(number), String(name)]);
  const controls = [
    menu("model", choices(data.models.map(({ name }) => name)), String(plan.model), set("model")),
    menu("tokens in a row", choices(data.lengths), String(plan.length), set("length")),
    log("rows at a worker", "rows", 2, 0, 8, [1, ""]),
    plain("its memory", "memory", 8, 192, 8, [BIG, " GB"]),
    log("workers", "workers", 2, 0, 10, [1, ""]),
    tick("all sharded", plan.sharded, set("sharded", Boolean)),
    log("tokens to read", "tokens", 10, 6, 13, [BIG, " billion"], 0.1),
    plain("peak of a worker", "peak", 1, 2000, 1, [1e12, " trillion a second"]),
    plain("utilisation", "utilisation", 5, 80, 1, [0.01, " %"]),
    plain("an hour of a worker", "price", 0.1, 10, 0.1, [1, " dollars"]),
  ];
  show();
  return [element("div", { class: "row" }, ...controls), told, below];
});
