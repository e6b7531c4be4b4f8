// A diff by lines: lines that occur once in both texts and keep their order hold the two together, and between those
// Myers' algorithm finds the shortest script. Indentation is not a difference.
import type { Work } from "./slices";

/** Lines [fromA, toA) of the one text are where lines [fromB, toB) of the other do; counted from 0. */
export interface Hunk {
  fromA: number;
  toA: number;
  fromB: number;
  toB: number;
}

/** Edits beyond which Myers' quadratic search gives up: the block is then one hunk. */
const MOST_EDITS = 600;

/** Lines that are read between two places where the work can be interrupted. */
const LINES_A_STEP = 1000;

/** What differs between two texts, in order. */
export function* lineDiff(a: readonly string[], b: readonly string[]): Work<Hunk[]> {
  const { fromA, toA, fromB, toB } = without(a, b);
  const numbers = new Map<string, number>();
  const left = yield* numbered(a, fromA, toA, numbers);
  const right = yield* numbered(b, fromB, toB, numbers);
  const hunks = yield* compared(left, right, new Unique(numbers.size));
  return joined(
    hunks.map((hunk) => ({
      fromA: hunk.fromA + fromA,
      toA: hunk.toA + fromA,
      fromB: hunk.fromB + fromB,
      toB: hunk.toB + fromB,
    })),
  );
}

/** What is left of two texts without the lines that both begin with, and both end with. */
function without(a: readonly string[], b: readonly string[]): Hunk {
  const same = (one: string, other: string): boolean =>
    one === other || one.trim() === other.trim();
  let from = 0;
  let [toA, toB] = [a.length, b.length];
  while (from < toA && from < toB && same(a[from]!, b[from]!)) from++;
  while (from < toA && from < toB && same(a[toA - 1]!, b[toB - 1]!))
    [toA, toB] = [toA - 1, toB - 1];
  return { fromA: from, toA, fromB: from, toB };
}

/** Lines [from, to) as numbers: equal lines have the same one. */
function* numbered(
  lines: readonly string[],
  from: number,
  to: number,
  numbers: Map<string, number>,
): Work<Int32Array> {
  const found = new Int32Array(to - from);
  for (let at = from; at < to; at++) {
    const line = lines[at]!.trim();
    let number = numbers.get(line);
    if (number === undefined) numbers.set(line, (number = numbers.size));
    found[at - from] = number;
    if (at % LINES_A_STEP === 0) yield;
  }
  return found;
}

function* compared(a: Int32Array, b: Int32Array, unique: Unique): Work<Hunk[]> {
  const hunks: Hunk[] = [];
  /** Blocks that are still to be compared, the first one last. */
  const blocks: Hunk[] = [{ fromA: 0, toA: a.length, fromB: 0, toB: b.length }];
  for (let block = blocks.pop(); block !== undefined; block = blocks.pop()) {
    shrink(a, b, block);
    if (block.fromA === block.toA && block.fromB === block.toB) continue;
    if (block.fromA === block.toA || block.fromB === block.toB) hunks.push(block);
    else {
      const anchors = unique.inOrder(a, b, block);
      if (anchors === null) hunks.push(block);
      else if (anchors.a.length > 0)
        for (const part of between(anchors, block).reverse()) blocks.push(part);
      else yield* myers(a, b, block, hunks);
    }
    yield;
  }
  return hunks;
}

/** Take off what both sides of a block begin with, and what they end with. */
function shrink(a: Int32Array, b: Int32Array, block: Hunk): void {
  while (block.fromA < block.toA && block.fromB < block.toB && a[block.fromA] === b[block.fromB]) {
    block.fromA++;
    block.fromB++;
  }
  while (
    block.fromA < block.toA &&
    block.fromB < block.toB &&
    a[block.toA - 1] === b[block.toB - 1]
  ) {
    block.toA--;
    block.toB--;
  }
}

/** Pairs of lines that correspond: positions in the one text, and as many in the other. */
interface Anchors {
  a: readonly number[];
  b: readonly number[];
}

/** The blocks before, between and after anchors, in order; those in which there is nothing are left out. */
function between({ a, b }: Anchors, { fromA, toA, fromB, toB }: Hunk): Hunk[] {
  const blocks: Hunk[] = [];
  for (let anchor = 0; anchor <= a.length; anchor++) {
    const [endA, endB] = [a[anchor] ?? toA, b[anchor] ?? toB];
    if (fromA < endA || fromB < endB) blocks.push({ fromA, toA: endA, fromB, toB: endB });
    [fromA, fromB] = [endA + 1, endB + 1];
  }
  return blocks;
}

const NOWHERE = 0;
const TWICE = -1;

/** Finds the lines that occur once on either side of a block. */
class Unique {
  /** Number of a line -> its position, from 1, in the block at hand. */
  private readonly inA: Int32Array;
  private readonly inB: Int32Array;

  /** `numbers` is how many different lines there are. */
  constructor(numbers: number) {
    this.inA = new Int32Array(numbers);
    this.inB = new Int32Array(numbers);
  }

  /** The longest sequence of such lines that ascends on both sides; null where the two sides have no line in common. */
  inOrder(a: Int32Array, b: Int32Array, { fromA, toA, fromB, toB }: Hunk): Anchors | null {
    const { inA, inB } = this;
    for (let at = fromA; at < toA; at++) inA[a[at]!] = inA[a[at]!] === NOWHERE ? at + 1 : TWICE;
    for (let at = fromB; at < toB; at++) inB[b[at]!] = inB[b[at]!] === NOWHERE ? at + 1 : TWICE;
    const pairs: { a: number[]; b: number[] } = { a: [], b: [] };
    let shared = false;
    for (let at = fromA; at < toA; at++) {
      const there = inB[a[at]!]!;
      shared ||= there !== NOWHERE;
      if (inA[a[at]!] !== at + 1 || there <= NOWHERE) continue;
      pairs.a.push(at);
      pairs.b.push(there - 1);
    }
    for (let at = fromA; at < toA; at++) inA[a[at]!] = NOWHERE;
    for (let at = fromB; at < toB; at++) inB[b[at]!] = NOWHERE;
    return shared ? longestAscending(pairs) : null;
  }
}

/** Of pairs that ascend in `a`, the longest choice that ascends in `b` too: patience sorting. */
function longestAscending({ a, b }: Anchors): Anchors {
  const tops: number[] = [];
  const before = new Int32Array(a.length).fill(-1);
  b.forEach((there, pair) => {
    let low = 0;
    let high = tops.length;
    if (high > 0 && b[tops[high - 1]!]! < there) low = high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (b[tops[middle]!]! < there) low = middle + 1;
      else high = middle;
    }
    before[pair] = low > 0 ? tops[low - 1]! : -1;
    tops[low] = pair;
  });
  const chosen: number[] = [];
  for (let pair = tops[tops.length - 1] ?? -1; pair >= 0; pair = before[pair]!) chosen.push(pair);
  chosen.reverse();
  return { a: chosen.map((pair) => a[pair]!), b: chosen.map((pair) => b[pair]!) };
}

/** The shortest edit script of a block in which no line is unique (Myers 1986, the greedy forward search). */
function* myers(a: Int32Array, b: Int32Array, block: Hunk, hunks: Hunk[]): Work<void> {
  const { fromA, fromB } = block;
  const sizeA = block.toA - fromA;
  const sizeB = block.toB - fromB;
  const most = Math.min(sizeA + sizeB, MOST_EDITS);
  const reach = new Int32Array(2 * most + 3);
  const trace: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits++) {
    trace.push(reach.slice(most - edits, most + edits + 3));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const at = most + 1 + diagonal;
      const down = diagonal === -edits || (diagonal !== edits && reach[at - 1]! < reach[at + 1]!);
      let x = down ? reach[at + 1]! : reach[at - 1]! + 1;
      while (x < sizeA && x - diagonal < sizeB && a[fromA + x] === b[fromB + x - diagonal]) x++;
      reach[at] = x;
      if (x >= sizeA && x - diagonal >= sizeB) {
        walkBack(trace, edits, sizeA, sizeB, fromA, fromB, hunks);
        return;
      }
    }
    yield;
  }
  hunks.push(block);
}

function walkBack(
  trace: readonly Int32Array[],
  edits: number,
  x: number,
  y: number,
  fromA: number,
  fromB: number,
  hunks: Hunk[],
): void {
  const found: Hunk[] = [];
  for (let step = edits; step > 0; step--) {
    // trace[step] holds the diagonals -step-1 .. step+1 as they were before that step.
    const reach = trace[step]!;
    const diagonal = x - y;
    const at = diagonal + step + 1;
    const down = diagonal === -step || (diagonal !== step && reach[at - 1]! < reach[at + 1]!);
    const beforeX = down ? reach[at + 1]! : reach[at - 1]!;
    const beforeY = beforeX - (down ? diagonal + 1 : diagonal - 1);
    found.push(
      down
        ? {
            fromA: fromA + beforeX,
            toA: fromA + beforeX,
            fromB: fromB + beforeY,
            toB: fromB + beforeY + 1,
          }
        : {
            fromA: fromA + beforeX,
            toA: fromA + beforeX + 1,
            fromB: fromB + beforeY,
            toB: fromB + beforeY,
          },
    );
    x = beforeX;
    y = beforeY;
  }
  hunks.push(...found.reverse());
}

/** Hunks that touch become one. */
function joined(hunks: readonly Hunk[]): Hunk[] {
  const out: Hunk[] = [];
  for (const hunk of hunks) {
    const last = out[out.length - 1];
    if (last !== undefined && last.toA === hunk.fromA && last.toB === hunk.fromB) {
      last.toA = hunk.toA;
      last.toB = hunk.toB;
    } else out.push({ ...hunk });
  }
  return out;
}
