// Numbers as people read them.

const THIN = "\u202f"; // a narrow space that does not break
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const NOTHING = "\u2013";

export function count(value) {
  return value == null ? NOTHING : whole.format(value);
}

// Three significant digits, grouped; exponents only where nothing else is short.
export function number(value, digits = 3) {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e9)) return value.toExponential(digits - 1);
  return new Intl.NumberFormat("en", { maximumSignificantDigits: digits }).format(value);
}

export function percent(share, digits = 1) {
  return share == null ? NOTHING : `${(100 * share).toFixed(digits)}${THIN}%`;
}

// A change: with its sign.
export function signed(share) {
  return share == null ? NOTHING : `${share < 0 ? "\u2212" : "+"}${percent(Math.abs(share))}`;
}

// Skill: what has diverged needs no digits.
export function skill(share) {
  return share < -10 ? `below \u22121,000${THIN}%` : signed(share);
}

// A budget: as many digits as it takes, without zeros at the end.
export function budgetShare(share) {
  return `${number(100 * share)}${THIN}%`;
}

// How much less than everything. Cut, not rounded, and with more digits near all, so that it never shows 100 %.
export function reduction(share) {
  const digits = share < 1 ? Math.min(4, Math.max(1, Math.floor(-Math.log10(1 - share) + 1e-9) - 1)) : 1;
  const shown = Math.floor(Math.abs(share) * 100 * 10 ** digits + 1e-6) / 10 ** digits;
  return `${shown.toFixed(digits)}${THIN}%`;
}

export function bytes(value) {
  if (value == null) return NOTHING;
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  const power = value < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(value * 1.0005) / 3));
  return `${number(value / 1000 ** power)}${THIN}${units[power]}`;
}

export function bits(value) {
  return value == null ? NOTHING : bytes(value / 8);
}

export function seconds(value) {
  if (value == null) return NOTHING;
  if (value < 1) return `${number(1000 * value, 2)}${THIN}ms`;
  return value < 120 ? `${number(value)}${THIN}s` : span(value);
}

// A length of time in its two largest units.
export function span(value) {
  const parts = [];
  let rest = Math.max(0, Math.round(value));
  for (const [name, length] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    if (rest >= length && parts.length < 2) parts.push(`${Math.floor(rest / length)}${THIN}${name}`);
    rest %= length;
  }
  return parts.join(" ") || `0${THIN}s`;
}

export function ago(then, now) {
  if (then == null) return "never";
  const passed = now - then;
  return passed < 2 ? "now" : `${span(passed).split(" ")[0]} ago`;
}
