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
