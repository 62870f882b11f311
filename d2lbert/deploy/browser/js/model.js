// A folder that `d2lbert export --format onnx-web` wrote, run in this browser by ONNX Runtime Web.
//
//     const ort = await loadRuntime("onnxruntime/");
//     const model = await Model.open("models/minilm/", ort);
//     await model.classify("sentiment", "a warm and funny film");
//
// Nothing is downloaded before open() but the manifest, and an adapter only when its task is first used. Offsets and
// lengths are in characters, as in Python, not in the units of JavaScript's strings.

import * as tasks from "./tasks.js";
import { WordPiece, splitWords } from "./wordpiece.js";

/** A mistake of who uses the page: the message says what is wrong and what to do. */
export class UserError extends Error {}

/** Return ONNX Runtime Web, for WebAssembly without threads, from a folder beside the page. Its binary is packed. */
export async function loadRuntime(folder, read = download) {
  const base = new URL(folder, globalThis.location?.href ?? folder);
  const packed = await read(new URL("ort-wasm-simd-threaded.wasm.gz", base));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const ort = await import(new URL("ort.wasm.bundle.min.mjs", base));
  ort.env.wasm.wasmBinary = await new Response(stream).arrayBuffer();
  ort.env.wasm.numThreads = 1; // threads need headers that a plain server of files does not send
  return ort;
}

/** Return the bytes at an address. onBytes is told how many came with each part. */
export async function download(address, onBytes = () => {}) {
  const response = await fetch(address);
  if (!response.ok) throw new UserError(`${address} was not found (${response.status}): build the site again`);
  const parts = [];
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    onBytes(part.value.length);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** Return what a folder holds, without downloading it: its manifest. */
export async function readManifest(folder, read = download) {
  const base = new URL(folder, globalThis.location?.href ?? folder);
  return JSON.parse(new TextDecoder().decode(await read(new URL("browser.json", base))));
}

/** Return the bytes that a page downloads for some tasks of a folder, besides the runtime; all tasks by default. */
export function downloadSize(manifest, names = Object.keys(manifest.tasks)) {
  const adapters = names.map((name) => manifest.tasks[name].adapter?.bytes ?? 0);
  return [manifest.graph.bytes, manifest.vocabulary.bytes, ...adapters].reduce((sum, bytes) => sum + bytes, 0);
}

/** Return the tensors of a file of safetensors: name -> {dims, data}, numbers of 16 bits as 32. */
export function readSafetensors(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = 8 + Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, start)));
  delete header.__metadata__;
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: [first, last] }] of Object.entries(header)) {
    const size = { F16: 2, F32: 4 }[dtype];
    if (size === undefined) throw new UserError(`${name} has numbers of the kind ${dtype}: export the model again`);
    const data = new Float32Array((last - first) / size);
    for (let index = 0; index < data.length; index++) {
      const place = start + first + index * size;
      data[index] = size === 2 ? fromHalf(view.getUint16(place, true)) : view.getFloat32(place, true);
    }
    tensors[name] = { dims: shape, data };
  }
  return tensors;
}

/** Return the number that 16 bits stand for: a sign, 5 bits of exponent, 10 bits of fraction. */
export function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** A model with its tokenizer. Open it with Model.open. */
export class Model {
  constructor(base, manifest, tokenizer, session, ort, read) {
    Object.assign(this, { base, manifest, tokenizer, session, ort, read });
    this.adapters = new Map(); // task -> a promise of its inputs
  }

  /** Download the graph and the vocabulary of a folder, check them, and make them ready. */
  static async open(folder, ort, read = download) {
    const base = new URL(folder, globalThis.location?.href ?? folder);
    const manifest = await readManifest(folder, read);
    const vocabulary = new TextDecoder().decode(await checked(base, manifest.vocabulary, read));
    const graph = await checked(base, manifest.graph, read);
    const session = await ort.InferenceSession.create(graph, { executionProviders: ["wasm"] });
    const options = { lowercase: manifest.lowercase, stripAccents: manifest.strip_accents };
    return new Model(base, manifest, new WordPiece(vocabulary, options), session, ort, read);
  }

  /** Return a task of the manifest. */
  task(name, ...kinds) {
    const task = this.manifest.tasks[name];
    if (!kinds.includes(task?.task)) {
      const known = Object.keys(this.manifest.tasks).filter((one) => kinds.includes(this.manifest.tasks[one].task));
      throw new UserError(`${name} is not for this: choose ${known.join(", ") || "another model"}`);
    }
    return task;
  }

  /** Return {label, probabilities} of a text or of a pair of texts, or {score}. */
  async classify(name, text, pair = null) {
    const task = this.task(name, "classification");
    const encoding = this.tokenizer.encode(text, pair, task.longest);
    checkFilled(encoding);
    return tasks.classification((await this.logits(name, encoding))[0], task.labels);
  }

  /** Return {words, tags, probabilities} of a text, and its {text, type, probability} entities where tags are such. */
  async tag(name, text) {
    const task = this.task(name, "tagging");
    const words = splitWords(text);
    const encodings = tasks.taggingInputs(words, this.tokenizer, task.longest);
    checkFilled(encodings[0]);
    const outputs = await this.each(encodings, (encoding) => this.logits(name, encoding));
    const found = tasks.tagging(words, encodings, outputs, task.labels);
    if (!task.labels.includes("O")) return { words, ...found };
    const spans = tasks.entities(found.tags).map(({ start, end, type }) => ({
      text: words.slice(start, end).join(" "),
      type,
      probability: found.probabilities[start],
    }));
    return { words, ...found, entities: spans };
  }

  /** Return {answer, start, probability, nBest}: the words of a text that answer a question. */
  async answer(name, question, text) {
    const task = this.task(name, "question_answering");
    const inputs = tasks.questionInputs(question, text, this.tokenizer, task.longest);
    const outputs = await this.each(inputs, ({ encoding }) => this.logits(name, encoding));
    return tasks.answer(text, inputs, outputs, task.null_threshold);
  }

  /**
   * Return {tokens, gaps, attentions} of a text with [MASK] in it: for each gap the count likeliest {piece, probability},
   * and attention weights as attentions[layer][head][from][to].
   */
  async fillMask(name, text, count = 5) {
    const task = this.task(name, "fill_mask");
    const encoding = this.tokenizer.encode(text);
    const mask = this.manifest.special_ids["[MASK]"];
    const columns = encoding.ids.flatMap((id, column) => (id === mask ? [column] : []));
    if (columns.length === 0) throw new UserError("the text has no [MASK]: write one where a word is to be guessed");
    if (encoding.ids.length > task.longest) {
      const sizes = `${encoding.ids.length} tokens, but the model takes ${task.longest}`;
      throw new UserError(`the text has ${sizes}: give a shorter one`);
    }
    const given = { columns: this.integers(columns, [1, columns.length]) };
    const { logits, attentions } = await this.run(encoding, given, ["logits", "attentions"]);
    const gaps = nested(logits)[0].map((one) => tasks.likeliest(one, this.tokenizer.vocabulary, count));
    return { tokens: encoding.tokens, gaps, attentions: nested(attentions)[0] };
  }

  /** Return the logits of one text, [C numbers] in a list, or those of each of its tokens. */
  async logits(name, encoding) {
    const { output } = this.task(name, "classification", "tagging", "question_answering");
    const found = nested((await this.run(encoding, await this.adapter(name), [output]))[output]);
    return found[0] instanceof Float32Array ? found : found[0]; // (1, C) or (1, L, C)
  }

  /** Return the inputs that a task has of its own, downloaded when it is first used. */
  adapter(name) {
    const file = this.manifest.tasks[name].adapter;
    if (file === null) return {};
    if (!this.adapters.has(name)) {
      const made = checked(this.base, file, this.read).then((bytes) =>
        Object.fromEntries(
          Object.entries(readSafetensors(bytes)).map(([key, { dims, data }]) => [
            key,
            new this.ort.Tensor("float32", data, dims),
          ]),
        ),
      );
      made.catch(() => this.adapters.delete(name)); // so that a click tries again
      this.adapters.set(name, made);
    }
    return this.adapters.get(name);
  }

  async run(encoding, given, outputs) {
    const size = [1, encoding.ids.length];
    const texts = {
      input_ids: this.integers(encoding.ids, size),
      attention_mask: this.integers(encoding.ids.map(() => 1), size),
      token_type_ids: this.integers(encoding.segmentIds, size),
    };
    // An input that an encoder has no use for, such as segments in DistilBERT, is not in its graph.
    const taken = Object.entries(texts).filter(([input]) => this.session.inputNames.includes(input));
    return this.session.run({ ...Object.fromEntries(taken), ...given }, outputs);
  }

  integers(numbers, size) {
    return new this.ort.Tensor("int64", BigInt64Array.from(numbers, BigInt), size);
  }

  /** Do an asynchronous thing for each of a list, one after the other. */
  async each(list, work) {
    const found = [];
    for (const one of list) found.push(await work(one));
    return found;
  }
}

/** Return a tensor as arrays in arrays; the last axis is a Float32Array. */
function nested({ dims, data }) {
  if (dims.length === 1) return data;
  const [count, ...rest] = dims;
  const size = data.length / count;
  return Array.from({ length: count }, (_, index) =>
    nested({ dims: rest, data: data.subarray(index * size, (index + 1) * size) }),
  );
}

/** Return the bytes of a file of a manifest, if they are those that it tells. */
async function checked(base, { file, sha256 }, read) {
  const bytes = await read(new URL(file, base));
  // A page that came over plain HTTP from elsewhere has no crypto.subtle.
  if (globalThis.crypto?.subtle) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const found = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    if (found !== sha256) throw new UserError(`${file} is damaged or of another model: load the page anew`);
  }
  return bytes;
}

function checkFilled(encoding) {
  if (encoding.special.every(Boolean)) {
    throw new UserError("the text holds nothing that the tokenizer keeps: give at least one word");
  }
}
