// Encodes texts: {vocabulary, lowercase, stripAccents, inputs: [a, b or null, longest or null]}.
import { readFileSync } from "node:fs";

const [modules, path] = process.argv.slice(2);
const { WordPiece, splitWords } = await import(`${modules}/wordpiece.js`);
const { vocabulary, lowercase, stripAccents, inputs } = JSON.parse(readFileSync(path, "utf8"));
const tokenizer = new WordPiece(vocabulary, { lowercase, stripAccents });
const found = inputs.map(([a, b, longest]) => {
  const { ids, segmentIds, tokens, offsets, special } = tokenizer.encode(a, b, longest);
  return [ids, segmentIds, tokens, offsets, special.map(Number), splitWords(a)];
});
process.stdout.write(JSON.stringify(found));
