// The spans of a text as answers to a question, with their probabilities; a token shows the best spans that hold it.

import { bar, define, element, fixed, menu, picks, said, table } from "./figure.js";
import { spanProbabilities } from "./numbers.js";

const SHOWN = 6; // spans, likeliest first

/** A long span as its first and last words. */
function brief(text) {
  const words = text.split(" ");
  return words.length > 6 ? `${words.slice(0, 3).join(" ")} … ${words.slice(-2).join(" ")}` : text;
}

define("answers", ({ questions, longest }) => {
  const [told, text, below] = [said(), element("div"), element("div")];
  const ask = (number) => {
    const { context, offsets, start, end, tokens } = questions[number];
    const spans = spanProbabilities(start, end, longest);
    const best = spans[0];
    const words = ({ first, last }) => context.slice(offsets[first][0], offsets[last][1]);
    const inside = tokens.map((_, place) =>
      spans.reduce((sum, { first, last, probability }) => sum + (first <= place && place <= last ? probability : 0), 0),
    );
    const token = (place) => {
      const answer = best.first <= place && place <= best.last;
      const share = `color-mix(in srgb, var(--d2l-weight, #f7b7a3) ${fixed(100 * inside[place], 0)}%, var(--d2l-text, #f0f0f0))`;
      const shown = (place === best.first ? "[" : "") + tokens[place] + (place === best.last ? "]" : "");
      const edge = answer ? "text-decoration: underline" : "border-color: transparent";
      const style = `background: ${share}; padding: 0 0.15rem; margin: 1px 0; ${edge}`;
      return element("button", { type: "button", class: "chip", style, "aria-label": `${tokens[place]}, ${fixed(inside[place])} in the answer` }, shown);
    };
    const choose = (place) => {
      const through = spans.filter(({ first, last }) => first <= place && place <= last).slice(0, SHOWN);
      const row = (span) => [words(span), fixed(span.probability, 3), bar(span.probability, "output", 5)];
      below.replaceChildren(table(`The best spans that hold “${tokens[place]}”`, ["span", "probability", ""], through.map(row), through.indexOf(best)));
      const [first, second] = through.map((span) => `“${brief(words(span))}” ${fixed(span.probability, 3)}`);
      const after = second ? `, then ${second}` : "";
      told.textContent =
        `Answer: “${brief(words(best))}” ${fixed(best.probability, 3)}. “${tokens[place]}” is in the answer with ${fixed(inside[place], 3)}; best span with it: ${first}${after}.`;
    };
    const nodes = tokens.map((_, place) => token(place));
    text.replaceChildren(picks("tokens of the text", nodes, best.first, choose, { hover: true }));
    choose(best.first);
  };
  ask(0);
  const names = questions.map(({ question }, number) => [String(number), question]);
  return [element("div", { class: "row" }, menu("question", names, "0", ask)), text, told, below];
});
