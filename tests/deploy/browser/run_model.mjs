// Runs a folder of `d2lbert export` by ONNX Runtime Web: {folder, runtime, calls: [[method, ...arguments]]}.
// Prints the answers, or the message where a call fails, and the files that each call has read.
import { readFile } from "node:fs/promises";

const [modules, path] = process.argv.slice(2);
const { Model, UserError, loadRuntime } = await import(`${modules}/model.js`);
const { folder, runtime, calls } = JSON.parse(await readFile(path, "utf8"));
let files = [];
const read = async (address) => {
  files.push(address.href.split("/").at(-1));
  return new Uint8Array(await readFile(address));
};
const ort = await loadRuntime(runtime, read);
const answers = [];
try {
  const model = await Model.open(folder, ort, read);
  answers.push({ files });
  for (const [method, ...given] of calls) {
    files = [];
    try {
      answers.push({ answer: await model[method](...given), files });
    } catch (error) {
      if (!(error instanceof UserError) && !(error instanceof RangeError)) throw error;
      answers.push({ error: error.message });
    }
  }
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  answers.push({ error: error.message });
}
const plain = (_, value) => (value instanceof Float32Array ? Array.from(value) : value);
process.stdout.write(JSON.stringify(answers, plain));
