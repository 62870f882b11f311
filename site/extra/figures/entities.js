// The entities that a tagger finds in a sentence, with their probabilities; a word shows what else it might have been.

import { bar, define, element, fixed, menu, picks, said, table, tick } from "./figure.js";
import { entitySpans, legalLabels, likeliest } from "./numbers.js";

const COLOURS = ["query", "key", "value", "hidden", "weight", "output"];
const SHOWN = 6; // labels of a word, likeliest first

/** The kinds of labels, "person" for "B-person" and "I-person", in their order. */
const types = (labels) => [...new Set(labels.filter((label) => label !== "O").map((label) => label.slice(2)))];

define("entities", ({ sentences }) => {
  const state = { sentence: 0, legal: false, word: 0 };
  const [told, text, below] = [said(), element("div"), element("div")];
  const tagsNow = () => {
    const { chances, labels } = sentences[state.sentence];
    return (state.legal ? legalLabels(chances, labels) : likeliest(chances)).map((label) => labels[label]);
  };
  const showWord = () => {
    const { words, labels, chances } = sentences[state.sentence];
    const tags = tagsNow();
    const [row, given] = [chances[state.word], tags[state.word]];
    const order = row.map((_, label) => label).sort((a, b) => row[b] - row[a] || a - b).slice(0, SHOWN);
    const rows = order.map((label) => [labels[label], fixed(row[label], 3), bar(row[label], "output", 6)]);
    const caption = `Labels of “${words[state.word]}”, likeliest first`;
    below.replaceChildren(table(caption, ["label", "probability", ""], rows, order.indexOf(labels.indexOf(given))));
    const others = order.map((label) => labels[label]).filter((label) => label !== given).slice(0, 2);
    const chance = (label) => `${label} ${fixed(row[labels.indexOf(label)])}`;
    const entity = entitySpans(tags).find(({ start, end }) => start <= state.word && state.word < end);
    const part = entity ? `in the entity “${words.slice(entity.start, entity.end).join(" ")}” (${entity.type})` : "in no entity";
    told.textContent = `${words[state.word]}: ${chance(given)}, ${part}. Next: ${others.map(chance).join(", ")}.`;
  };
  const show = () => {
    const { words, labels, chances } = sentences[state.sentence];
    const [tags, kinds] = [tagsNow(), types(labels)];
    const found = entitySpans(tags);
    const word = (place) => {
      const entity = found.find(({ start, end }) => start <= place && place < end);
      const colour = entity ? COLOURS[kinds.indexOf(entity.type) % COLOURS.length] : "text";
      const chance = fixed(chances[place][labels.indexOf(tags[place])]);
      const edge = entity ? "border-width: 2px" : "border-color: transparent";
      const label = tags[place] === "O" ? "" : tags[place];
      return element("button", { type: "button", class: `chip ${colour}`, style: `${edge}; text-align: center; padding: 0.1rem 0.35rem`,
        "aria-label": `${words[place]}, ${tags[place]} ${chance}` }, words[place], element("br"), element("small", {}, label ? `${label} ${chance}` : "O"));
    };
    const chosen = (place) => {
      state.word = place;
      showWord();
    };
    text.replaceChildren(picks("words of the sentence", words.map((_, place) => word(place)), state.word, chosen, { hover: true }));
    showWord();
  };
  const sentence = (number) => {
    const { chances, labels, words } = sentences[number];
    const first = likeliest(chances).findIndex((label) => labels[label] !== "O");
    Object.assign(state, { sentence: Number(number), word: first < 0 ? words.length - 1 : first });
    show();
  };
  const legal = (ticked) => {
    state.legal = ticked;
    show();
  };
  const names = sentences.map(({ name }, number) => [String(number), name]);
  sentence(0);
  const controls = [menu("sentence", names, "0", sentence), tick("only legal sequences (Viterbi)", false, legal)];
  return [element("div", { class: "row" }, ...controls), text, told, below];
});
