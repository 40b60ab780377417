// From the history's points to the curves that are drawn.

// The mean of `name` over the last predictions, at least `window` of them, at every point.
export function movingMean(history, name, window) {
  const { samples = [] } = history;
  const values = history[name] ?? [];
  let first = 0;
  let number = 0;
  let sum = 0;
  return samples.map((more, last) => {
    number += more;
    sum += values[last];
    while (number - samples[first] >= window) {
      number -= samples[first];
      sum -= values[first++];
    }
    return number > 0 ? sum / number : null;
  });
}

export function runningMean(history, name) {
  return movingMean(history, name, Infinity);
}

// How many predictions a moving mean covers: a round number, about a fiftieth of all.
export function windowFor(history) {
  const total = (history.samples ?? []).reduce((sum, more) => sum + more, 0);
  let window = 500;
  for (let power = 1; power < 1e12; power *= 10) {
    for (const digit of [1, 2, 5]) {
      const candidate = 1000 * power * digit;
      if (candidate <= total / 50) window = candidate;
    }
  }
  return window;
}

// Which points of a long curve are drawn: about `limit` of them, and always the last.
export function picked(length, limit = 400) {
  const size = Math.max(1, Math.ceil(length / limit));
  const indices = [];
  for (let index = length - 1; index >= 0; index -= size) indices.unshift(index);
  return indices;
}

// Means of neighbouring points, at most `limit` of them: noise of single rounds stays out of the picture.
export function thinned(steps, values, limit = 80) {
  const size = Math.max(1, Math.ceil(values.length / limit));
  const x = [];
  const y = [];
  for (let start = 0; start < values.length; start += size) {
    const some = values.slice(start, start + size);
    x.push(steps[start]);
    y.push(some.reduce((sum, value) => sum + value, 0) / some.length);
  }
  return { x, y };
}

export function meanOfLast(values = [], number = 20) {
  const some = values.slice(-number);
  return some.length ? some.reduce((sum, value) => sum + value, 0) / some.length : null;
}

export function last(values = []) {
  return values.length ? values[values.length - 1] : null;
}
