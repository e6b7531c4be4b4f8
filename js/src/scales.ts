// From numbers to places on an axis, and back to words.

/** Numbers further apart than this factor are drawn on a logarithmic axis, as in the stills. */
const WIDE = 5;

export interface Scale {
  readonly isLog: boolean;
  readonly ticks: readonly number[];
  /** The place of a value, in pixels. */
  at(value: number): number;
  /** The value at a share of the axis, 0 to 1. */
  value(share: number): number;
}

export function isWide(values: readonly number[]): boolean {
  const positive = values.filter((value) => value > 0);
  return positive.length > 0 && Math.max(...positive) > WIDE * Math.min(...positive);
}

/** A scale that holds all values, with some space at either end; `from` and `to` are the pixels of its ends. */
export function scaleOf(
  values: readonly number[],
  from: number,
  to: number,
  options: { log?: boolean; zero?: boolean; ticks?: number } = {},
): Scale {
  const { log = false, zero = false, ticks = 6 } = options;
  const finite = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  let [low, high] = finite.length > 0 ? [Math.min(...finite), Math.max(...finite)] : [1, 2];
  if (log) {
    const space = Math.max((high / low) ** 0.04, 1.02);
    return logarithmic(low / space, high * space, from, to, ticks);
  }
  if (zero) low = Math.min(0, low);
  const space = (high - low || Math.abs(high) || 1) * 0.04;
  return linear(zero && low === 0 ? 0 : low - space, high + space, from, to, ticks);
}

function linear(low: number, high: number, from: number, to: number, count: number): Scale {
  return {
    isLog: false,
    ticks: roundNumbers(low, high, count),
    at: (value) => from + ((value - low) / (high - low)) * (to - from),
    value: (share) => low + share * (high - low),
  };
}

function logarithmic(low: number, high: number, from: number, to: number, count: number): Scale {
  const span = Math.log(high / low);
  return {
    isLog: true,
    ticks: logTicks(low, high, count),
    at: (value) => from + (Math.log(value / low) / span) * (to - from),
    value: (share) => low * Math.exp(share * span),
  };
}

/** A logarithmic axis whose ticks are the given values, as powers of two have. */
export function scaleOfValues(values: readonly number[], from: number, to: number): Scale {
  const ordered = [...new Set(values)].sort((a, b) => a - b);
  const log = ordered.length > 0 && ordered[0]! > 0;
  return { ...scaleOf(ordered, from, to, { log }), ticks: ordered };
}

/** About `count` round numbers between two: multiples of 1, 2 or 5 times a power of ten. */
export function roundNumbers(low: number, high: number, count: number): number[] {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999)!;
  const found: number[] = [];
  for (let number = Math.ceil(low / step - 1e-9); number * step <= high * (1 + 1e-12); number++)
    found.push(Number((number * step).toPrecision(12)));
  return found;
}

function logTicks(low: number, high: number, count: number): number[] {
  for (const factors of [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const found: number[] = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const factor of factors) {
        const value = Number((factor * 10 ** power).toPrecision(3));
        if (value >= low && value <= high) found.push(value);
      }
    }
    if (found.length <= count + 2 || factors.length === 1)
      return found.length < 3 ? roundNumbers(low, high, count) : found;
  }
  return [];
}

/** Four digits are enough to distinguish two times: "218.6", "1.024", "12,480". */
export function numberWords(value: number): string {
  if (Math.abs(value) >= 10_000) return Math.round(value).toLocaleString("en");
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}
