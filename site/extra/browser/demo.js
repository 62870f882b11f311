// The demonstrations, on their own page and in chapters. Everything but this file is downloaded after a button is pressed, each file once.

const MODELS = new URL("../models/", import.meta.url); // whatever page shows the demonstration
const FOLDERS = { gap: "tiny/", sentiment: "minilm/", entities: "minilm/", answers: "minilm/" };
const opened = new Map(); // folder -> a promise of its model
let runtime = null;
let report = () => {}; // told of every part of a download; the form whose button was pressed last shows it

async function runtimeOnce(modules, read) {
  runtime ??= modules.loadRuntime(new URL("../onnxruntime/", import.meta.url), read);
  runtime.catch(() => (runtime = null)); // so that another click tries again
  return runtime;
}

async function modelOf(folder, modules, read) {
  if (!opened.has(folder)) {
    const model = runtimeOnce(modules, read).then((ort) => modules.Model.open(folder, ort, read));
    model.catch(() => opened.delete(folder));
    opened.set(folder, model);
  }
  return opened.get(folder);
}

/** Return a table that scrolls by itself; rows hold strings and numbers from 0 to 1, which are shown in per cent. */
function table(caption, head, rows) {
  const found = document.createElement("table");
  found.createCaption().textContent = caption;
  const row = found.createTHead().insertRow();
  for (const name of head) row.append(Object.assign(document.createElement("th"), { textContent: name, scope: "col" }));
  const body = found.createTBody();
  for (const values of rows) {
    const line = body.insertRow();
    for (const value of values) {
      const cell = line.insertCell();
      cell.textContent = typeof value === "number" ? `${(100 * value).toFixed(1)} %` : value;
      if (typeof value === "number") cell.className = "number weight";
      if (typeof value === "number") cell.style.setProperty("--share", (60 * value).toFixed(0));
    }
  }
  const frame = Object.assign(document.createElement("div"), { className: "scroll", tabIndex: 0, role: "region" });
  frame.setAttribute("aria-label", caption);
  frame.append(found);
  return frame;
}

const show = {
  async gap(model, { text, layer, head }) {
    const { tokens, gaps, attentions } = await model.fillMask("tiny", text);
    const weights = attentions[layer - 1][head - 1];
    const names = tokens.map((token, place) => `${place + 1} ${token}`);
    const guesses = gaps.map((gap, number) =>
      table(`Gap ${number + 1}: the likeliest pieces`, ["Piece", "Probability"], gap.map((one) => [one.piece, one.probability])),
    );
    const rows = names.map((name, from) => [name, ...weights[from]]);
    const said = gaps.map((gap) => gap[0].piece).join(", ");
    const caption = `Layer ${layer}, head ${head}: how much each token (row) looks at each other one (column)`;
    return [`The likeliest: ${said}.`, [...guesses, table(caption, ["Token", ...names], rows)]];
  },
  async sentiment(model, { text }) {
    const { label, probabilities } = await model.classify("sentiment", text);
    const rows = Object.entries(probabilities);
    return [`The review is ${label}.`, [table("What the model gives each label", ["Label", "Probability"], rows)]];
  },
  async entities(model, { text }) {
    const { entities } = await model.tag("entities", text);
    if (entities.length === 0) return ["No name was found.", []];
    const rows = entities.map((one) => [one.text, one.type, one.probability]);
    const said = entities.map((one) => `${one.text} (${one.type})`).join(", ");
    return [`Found: ${said}.`, [table("Names", ["Words", "Kind", "Probability"], rows)]];
  },
  async answers(model, { question, text }) {
    const { answer, nBest } = await model.answer("answers", question, text);
    const rows = nBest.map((one) => [one.answer, one.probability]);
    return [`The answer: ${answer}`, [table("The likeliest answers", ["Words of the text", "Probability"], rows)]];
  },
};

async function answer(form) {
  const [status, result, button] = [form.querySelector("[role=status]"), form.querySelector(".result"), form.querySelector("button")];
  const say = (text) => (status.textContent = text);
  let bytes = 0;
  report = (more) => {
    bytes += more;
    say(`Downloading: ${(bytes / 1e6).toFixed(1)} MB`);
  };
  button.disabled = true;
  try {
    const modules = await import("./model.js");
    const read = (address) => modules.download(address, (more) => report(more));
    const model = await modelOf(new URL(FOLDERS[form.dataset.demo], MODELS).href, modules, read);
    say("Computing");
    const [sentence, tables] = await show[form.dataset.demo](model, Object.fromEntries(new FormData(form)));
    result.replaceChildren(...tables);
    button.textContent = button.textContent.replace(/^Download .* and (.)/, (_, first) => first.toUpperCase());
    say(sentence);
  } catch (error) {
    result.replaceChildren();
    say(`This did not work: ${error.message}`);
  } finally {
    button.disabled = false;
  }
}

for (const form of document.querySelectorAll("form[data-demo]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    answer(form);
  });
}
