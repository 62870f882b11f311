// What the figures to play with compute: plain functions, without a page, which the tests compare with Python's.

/** Softmax of scores / temperature. */
export function softmax(scores, temperature = 1) {
  const highest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp((score - highest) / temperature));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

/** Scores, weights and context of one query; keys (S, K) and values (S, D) are lists of lists. */
export function attend(query, keys, values, temperature) {
  const scores = keys.map((key) => key.reduce((sum, number, place) => sum + number * query[place], 0));
  const weights = softmax(scores, temperature);
  const context = values[0].map((_, place) => values.reduce((sum, value, row) => sum + weights[row] * value[place], 0));
  return { scores, weights, context };
}

/** Round to the nearest whole number, and a half to the even one, as NumPy and PyTorch do. */
export function roundEven(number) {
  const below = Math.floor(number);
  if (number - below !== 0.5) return Math.round(number);
  return below % 2 === 0 ? below : below + 1;
}

/**
 * Lay a grid of so many bits over numbers. With a zero point all whole numbers from 0 up are used; without, those from
 * -largest to largest. Returns the step, the zero point, the first and last whole number, and for each number its whole
 * number and what is read back.
 */
export function quantize(numbers, bits, withZeroPoint) {
  const largest = 2 ** (bits - 1) - 1;
  const [low, high] = [Math.min(0, ...numbers), Math.max(0, ...numbers)];
  const [first, last] = withZeroPoint ? [0, 2 ** bits - 1] : [-largest, largest];
  const step = (withZeroPoint ? (high - low) / last : Math.max(high, -low) / largest) || 1;
  const zero = withZeroPoint ? roundEven(-low / step) : 0;
  const whole = numbers.map((number) => Math.min(last, Math.max(first, roundEven(number / step) + zero)));
  return { step, zero, first, last, whole, read: whole.map((number) => step * (number - zero)) };
}

/** The length of the difference over the length of what is right. */
export function relativeError(approximate, exact) {
  const length = (numbers) => Math.sqrt(numbers.reduce((sum, number) => sum + number * number, 0));
  return length(exact.map((number, place) => approximate[place] - number)) / length(exact);
}

/**
 * Return a function that draws numbers from 0 to 1, the same for the same seed: Marsaglia's xorshift with the shifts
 * 13, 17 and 5 (Journal of Statistical Software 8(14), 2003).
 */
export function uniforms(seed) {
  let state = Math.imul(seed + 1, 0x9e3779b9) >>> 0 || 1; // neighbouring seeds begin far apart, and none at 0
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 2 ** 32;
  };
}

/**
 * Hide tokens as d2lbert.data.pretraining.masking does: choose tokens (or words), and show [MASK], another piece or the
 * token itself. Returns what is shown, and the kind ("mask", "other" or "same") of each chosen place, else "".
 */
export function maskTokens(tokens, special, replacements, rates, random) {
  let words = 0;
  const word = tokens.map((token, place) => (rates.wholeWords ? (words += token.startsWith("##") ? 0 : 1) : place));
  const chosen = Array.from({ length: rates.wholeWords ? words + 1 : tokens.length }, () => random() < rates.chosen);
  const kinds = tokens.map(() => "");
  tokens.forEach((_, place) => {
    if (!chosen[word[place]] || special[place]) return;
    const draw = random();
    kinds[place] = draw < rates.masked ? "mask" : draw >= 1 - rates.replaced ? "other" : "same";
  });
  const another = () => replacements[Math.floor(random() * replacements.length)];
  const shown = tokens.map((token, place) => ({ mask: "[MASK]", other: null })[kinds[place]] ?? token);
  kinds.forEach((kind, place) => {
    if (kind === "other") shown[place] = another();
  });
  return { shown, kinds };
}

/** From logits to what is drawn from: temperature, then top-k (0 keeps all), then top-p; likeliest first. */
export function nextToken(logits, { temperature, topK, topP }) {
  const order = logits.map((_, token) => token).sort((a, b) => logits[b] - logits[a] || a - b);
  const before = temperature === 0 ? order.map((_, place) => (place ? 0 : 1)) : softmax(order.map((token) => logits[token]), temperature);
  let left = topK ? before.map((share, place) => (place < topK ? share : 0)) : before;
  left = scaled(left);
  let sum = 0; // what all better ones have
  left = left.map((share) => {
    const kept = sum < topP ? share : 0;
    sum += share;
    return kept;
  });
  return { order, before, after: scaled(left) };
}

function scaled(shares) {
  const sum = shares.reduce((total, share) => total + share, 0);
  return shares.map((share) => share / sum);
}

/** Draw a place from shares that add up to 1. */
export function draw(shares, random) {
  let left = random();
  for (let place = 0; place < shares.length; place++) {
    left -= shares[place];
    if (left < 0) return place;
  }
  return shares.findLastIndex((share) => share > 0); // the shares' sum was a little less than 1
}

/** How often each pair of neighbours occurs: a map from the pair, two pieces with a space between, to its count. */
export function countPairs(words) {
  const totals = new Map();
  for (const { pieces, count } of words) {
    for (let place = 1; place < pieces.length; place++) {
      const pair = `${pieces[place - 1]} ${pieces[place]}`;
      totals.set(pair, (totals.get(pair) ?? 0) + count);
    }
  }
  return totals;
}

/** Join a pair wherever it stands in a word. */
export function join(pieces, [first, second]) {
  const joined = [];
  for (const piece of pieces) {
    if (joined.at(-1) === first && piece === second) joined[joined.length - 1] = first + second;
    else joined.push(piece);
  }
  return joined;
}

/**
 * Byte-pair encoding from words and their counts: a list of steps. Each has the words as they are, the pairs from the most
 * frequent down, and the pair that is joined next, null where no pair is left. Of equals, the one whose pieces are older.
 */
export function byteMerges(counts, most = Infinity) {
  let words = [...counts].map(([word, count]) => ({ pieces: Array.from(word), count }));
  const made = [...new Set(words.flatMap(({ pieces }) => pieces))].sort((a, b) => a.codePointAt(0) - b.codePointAt(0));
  const steps = [];
  for (;;) {
    const age = new Map(made.map((piece, place) => [piece, place]));
    const pairs = [...countPairs(words)].map(([pair, count]) => ({ pair: pair.split(" "), count }));
    const older = (a, b) => age.get(a[0]) - age.get(b[0]) || age.get(a[1]) - age.get(b[1]);
    pairs.sort((a, b) => b.count - a.count || older(a.pair, b.pair));
    const best = steps.length < most && pairs.length ? pairs[0].pair : null;
    steps.push({ words, pairs, best });
    if (!best) return steps;
    if (!age.has(best.join(""))) made.push(best.join(""));
    words = words.map(({ pieces, count }) => ({ pieces: join(pieces, best), count }));
  }
}

/** Put each text into the first row that has room: the texts of each row, by their numbers, and the row of each text. */
export function firstFit(lengths, width) {
  const [rows, room, places] = [[], [], []];
  lengths.forEach((length, text) => {
    let row = room.findIndex((left) => left >= length);
    if (row < 0) {
      row = rows.push([]) - 1;
      room.push(width);
    }
    rows[row].push(text);
    room[row] -= length;
    places.push(row);
  });
  return { rows, places };
}

/** Order beginnings as Python orders pairs of a score and a list, the largest first. */
function better(a, b) {
  if (a.score !== b.score) return b.score - a.score;
  const place = a.tokens.findIndex((token, at) => token !== b.tokens[at]);
  if (place < 0) return b.tokens.length - a.tokens.length;
  return a.tokens[place] < (b.tokens[place] ?? "") ? 1 : -1;
}

/**
 * Beam search over a table: `next` has, for a beginning (its tokens with spaces between), a list of [token, log p].
 * Returns the best finished sentence, null if there is none, and for each length all that was grown, best first, each
 * with its fate: "goes on", "ends" or "dropped".
 */
export function beamSearch(next, k, end, longest, alpha) {
  let [beams, best] = [[{ score: 0, tokens: [] }], null];
  const steps = [];
  for (let length = 1; length <= longest && beams.length; length++) {
    const grow = ({ score, tokens }) => (next[tokens.join(" ")] ?? []).map(([token, more]) => ({ score: score + more, tokens: [...tokens, token] }));
    const grown = beams.flatMap(grow).sort(better);
    const penalty = ((5 + length) / 6) ** alpha;
    const goesOn = grown.filter(({ tokens }) => tokens.at(-1) !== end).slice(0, k);
    grown.forEach((one, rank) => {
      const ends = rank < k && one.tokens.at(-1) === end;
      one.fate = goesOn.includes(one) ? "goes on" : ends ? "ends" : "dropped";
      if (ends && (best === null || one.score / penalty > best.final)) best = { ...one, final: one.score / penalty };
    });
    steps.push(grown);
    beams = goesOn;
  }
  return { best, steps };
}

/**
 * What a training run takes: bytes at each worker, operations, hours and money. `model` has its number of parameters, the
 * bytes of a block's weights and those that one row's forward pass keeps; sending is left out.
 */
export function budget(model, { rows, workers, sharded, tokens, peak, utilisation, price }) {
  const whole = 16 * model.parameters;
  const state = sharded && workers > 1 ? whole / workers + model.block : whole;
  const activations = rows * model.activations;
  const operations = 6 * model.parameters * tokens;
  const hours = operations / (workers * utilisation * peak) / 3600;
  return { state, activations, memory: state + activations, operations, hours, dollars: hours * workers * price };
}

/**
 * All spans of at most `longest` tokens from their logits as start and as end: each with its first and last token and its
 * probability, the softmax over all of them; likeliest first.
 */
export function spanProbabilities(start, end, longest) {
  const spans = [];
  for (let first = 0; first < start.length; first++)
    for (let last = first; last < Math.min(first + longest, end.length); last++) spans.push({ first, last });
  const shares = softmax(spans.map(({ first, last }) => start[first] + end[last]));
  spans.forEach((span, place) => (span.probability = shares[place]));
  return spans.sort((a, b) => b.probability - a.probability);
}

const largest = (numbers) => numbers.indexOf(Math.max(...numbers));

/** The likeliest label of each word, by its number; chances are (T, C). */
export const likeliest = (chances) => chances.map(largest);

/** The most probable sequence of labels that IOB2 allows: the search of Viterbi. Before a sentence stands O. */
export function legalLabels(chances, labels) {
  const allowed = (before, label) => label[0] !== "I" || before.slice(1) === label.slice(1);
  const after = (before) => labels.map((label) => (allowed(before, label) ? 0 : -Infinity));
  let best = after("O").map((penalty, label) => Math.log(chances[0][label]) + penalty);
  const back = [];
  for (const row of chances.slice(1)) {
    const ways = labels.map((label) => best.map((score, before) => score + (allowed(labels[before], label) ? 0 : -Infinity)));
    back.push(ways.map(largest));
    best = ways.map((scores, label) => Math.max(...scores) + Math.log(row[label]));
  }
  const path = [largest(best)];
  for (const before of back.reverse()) path.unshift(before[path[0]]);
  return path;
}

/** The entities of tags in IOB2, each with its first word, the one behind its last, and its type; an I- that continues nothing begins one. */
export function entitySpans(tags) {
  const found = [];
  tags.forEach((tag, place) => {
    if (tag === "O") return;
    const [before, type] = [found.at(-1), tag.slice(2)];
    if (tag[0] === "I" && before?.end === place && before.type === type) before.end++;
    else found.push({ start: place, end: place + 1, type });
  });
  return found;
}

export const HABITS = ["the previous token", "the next token", "the token itself", "[CLS]", "[SEP]"];

/**
 * Where a head looks on average: the mean weight, over all tokens but the first and the last, on the previous token, the
 * next one, the token itself, the first and the last token of the text. `weights` are (L, L); a row asks.
 */
export function habits(weights) {
  const last = weights.length - 1;
  const places = (row) => [row - 1, row + 1, row, 0, last];
  const asking = weights.slice(1, last);
  return HABITS.map((_, habit) => asking.reduce((sum, row, place) => sum + row[places(place + 1)[habit]], 0) / asking.length);
}

/** The `count` points nearest to a point of the plane, by their numbers, nearest first. */
export function nearestPoints(points, chosen, count) {
  const [x, y] = points[chosen];
  const far = points.map(([u, v]) => Math.hypot(u - x, v - y));
  const others = points.map((_, place) => place).filter((place) => place !== chosen);
  return others.sort((a, b) => far[a] - far[b] || a - b).slice(0, count);
}
