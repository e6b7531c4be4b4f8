// What differs between two texts, as the merge view marks it.
import { Change, presentableDiff } from "@codemirror/merge";
import { type Hunk, lineDiff } from "./line_diff";
import { Lines, Renaming } from "./renaming";
import type { Work } from "./slices";

export interface Differences {
  changes: readonly Change[];
  /** There are too many to mark each: those near each other are one. */
  coarse: boolean;
}

/** Two lines longer than this together, in characters, are marked as a whole. */
const MOST_REFINED = 2000;

/** After this many changes lines are marked as a whole, and changes with few lines between them are one: drawing more takes seconds. */
export const MOST_CHANGES = 4000;
const FEW_LINES = 12;

/** Lines after which such a change ends where it can: whenever a line of it comes into sight, the merge view marks all of them. */
const MANY_LINES = 300;

/** The differences as CodeMirror wants them: by characters. Values that were only given other names are none. */
export function* differences(left: readonly string[], right: readonly string[]): Work<Differences> {
  const [a, b] = [new Lines(left), new Lines(right)];
  const parts: Part[] = [];
  for (const hunk of yield* lineDiff(left, right)) parts.push(...(yield* refined(a, b, hunk)));
  const renaming = yield* Renaming.of(a, b);
  for (const part of parts) {
    if (part.paired) eachPair(part, (lineA, lineB) => renaming.define(lineA, lineB));
    yield;
  }
  const marker = new Marker(left, right, renaming);
  for (const part of parts) {
    marker.mark(part);
    yield;
  }
  return marker.found();
}

/** Lines that say nothing of an operation: names of layouts, attributes of the module, ends of regions. */
const NO_OPERATION = /^\s*(?:#|module\b|tt\.func\b|[{})\]]|$)/;

/** The first line of the right text that differs and is an operation, from 1; else the first that differs, 0 for none. */
export function firstOperation(
  { changes }: Differences,
  lines: readonly string[],
  fits: (line: number) => boolean = () => true,
): number {
  let first = 0;
  let line = 0;
  let start = 0;
  for (const { fromB, toB } of changes) {
    while (line < lines.length - 1 && start + lines[line]!.length < fromB)
      start += lines[line++]!.length + 1;
    let [at, from] = [line, start];
    for (; at < lines.length && (from < toB || at === line); from += lines[at++]!.length + 1) {
      if (NO_OPERATION.test(lines[at]!)) continue;
      if (first === 0) first = at + 1;
      if (fits(at + 1)) return at + 1;
    }
  }
  return first;
}

/** A part of a hunk; paired: its lines correspond one by one. Else they came, went, or took others' place. */
interface Part extends Hunk {
  paired: boolean;
}

/** The most pairs of lines in one part: the work can be interrupted after each. */
const MOST_PAIRS = 100;

function eachPair({ fromA, toA, fromB }: Hunk, read: (lineA: number, lineB: number) => void): void {
  for (let at = 0; at < toA - fromA; at++) read(fromA + at, fromB + at);
}

/** Inside a hunk, pair lines that differ in the names of values alone: a value that is new renames all after it. */
function* refined(a: Lines, b: Lines, hunk: Hunk): Work<Part[]> {
  if (hunk.toA - hunk.fromA === 1 && hunk.toB - hunk.fromB === 1)
    return [{ ...hunk, paired: true }];
  if (hunk.toA === hunk.fromA || hunk.toB === hunk.fromB) return [{ ...hunk, paired: false }];
  const left = yield* forms(a, hunk.fromA, hunk.toA);
  const right = yield* forms(b, hunk.fromB, hunk.toB);
  const found: Part[] = [];
  let [atA, atB] = [hunk.fromA, hunk.fromB];
  const add = (toA: number, toB: number, paired: boolean): void => {
    while (paired && toA - atA > MOST_PAIRS) {
      found.push({ fromA: atA, toA: atA + MOST_PAIRS, fromB: atB, toB: atB + MOST_PAIRS, paired });
      [atA, atB] = [atA + MOST_PAIRS, atB + MOST_PAIRS];
    }
    if (toA > atA || toB > atB) found.push({ fromA: atA, toA, fromB: atB, toB, paired });
    [atA, atB] = [toA, toB];
  };
  for (const { fromA, toA, fromB, toB } of yield* lineDiff(left, right)) {
    add(hunk.fromA + fromA, hunk.fromB + fromB, true);
    add(hunk.fromA + toA, hunk.fromB + toB, toA - fromA === toB - fromB);
  }
  add(hunk.toA, hunk.toB, true);
  return found;
}

function* forms(lines: Lines, from: number, to: number): Work<string[]> {
  const found: string[] = [];
  for (let at = from; at < to; at++) {
    found.push(lines.form(at));
    if (at % MOST_PAIRS === 0) yield;
  }
  return found;
}

/** Collects what is marked, from the first line to the last. */
class Marker {
  private readonly changes: Change[] = [];
  /** Where each line starts, and the end. */
  private readonly startsA: Int32Array;
  private readonly startsB: Int32Array;

  constructor(
    private readonly a: readonly string[],
    private readonly b: readonly string[],
    private readonly renaming: Renaming,
  ) {
    this.startsA = starts(a);
    this.startsB = starts(b);
  }

  mark(part: Part): void {
    if (part.paired) eachPair(part, (lineA, lineB) => this.words(lineA, lineB));
    else this.lines(part);
  }

  found(): Differences {
    const coarse = this.changes.length > MOST_CHANGES;
    return { changes: coarse ? joined(this.changes, this.startsA) : this.changes, coarse };
  }

  /** Whole lines. The last line ends without a line break: what changes there takes the break before it. */
  private lines({ fromA, toA, fromB, toB }: Hunk): void {
    const { a, b, startsA, startsB } = this;
    const atEnd = toA === a.length || toB === b.length;
    const back = atEnd && fromA > 0 && fromB > 0 ? 1 : 0;
    const [endA, endB] = [
      Math.min(startsA[toA]! - back, startsA[a.length]! - 1),
      Math.min(startsB[toB]! - back, startsB[b.length]! - 1),
    ];
    this.changes.push(new Change(startsA[fromA]! - back, endA, startsB[fromB]! - back, endB));
  }

  /** Words of two lines that correspond. */
  private words(lineA: number, lineB: number): void {
    const [one, other] = [this.a[lineA]!, this.b[lineB]!];
    if (one.trim() === other.trim() || this.renaming.explains(lineA, lineB)) return;
    const whole = one.length + other.length > MOST_REFINED || this.changes.length > MOST_CHANGES;
    if (whole) return this.lines({ fromA: lineA, toA: lineA + 1, fromB: lineB, toB: lineB + 1 });
    const [fromA, fromB] = [this.startsA[lineA]!, this.startsB[lineB]!];
    for (const part of presentableDiff(one, other, { scanLimit: 200 })) {
      this.changes.push(
        new Change(fromA + part.fromA, fromA + part.toA, fromB + part.fromB, fromB + part.toB),
      );
    }
  }
}

/** Changes with few lines between them as one. */
function joined(changes: readonly Change[], startsA: Int32Array): readonly Change[] {
  const out: Change[] = [];
  let first = 0;
  let last = 0;
  for (const change of changes) {
    const line = lineOf(startsA, change.fromA);
    const before = out[out.length - 1];
    if (before !== undefined && line - last <= FEW_LINES && line - first <= MANY_LINES)
      out[out.length - 1] = new Change(before.fromA, change.toA, before.fromB, change.toB);
    else {
      out.push(change);
      first = line;
    }
    last = lineOf(startsA, change.toA);
  }
  return out;
}

/** The line, from 0, in which a position is. */
function lineOf(starts: Int32Array, position: number): number {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle]! <= position) low = middle;
    else high = middle - 1;
  }
  return low;
}

function starts(lines: readonly string[]): Int32Array {
  const found = new Int32Array(lines.length + 1);
  lines.forEach((line, index) => (found[index + 1] = found[index]! + line.length + 1));
  return found;
}
