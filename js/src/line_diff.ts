// A diff by lines: lines that occur once in both texts and keep their order hold the two together, and between those
// Myers' algorithm finds the shortest script. Indentation is no difference.

/** Lines [fromA, toA) of the one text stand where lines [fromB, toB) of the other do; counted from 0. */
export interface Hunk {
  fromA: number;
  toA: number;
  fromB: number;
  toB: number;
}

/** Edits beyond which Myers' quadratic search gives up: the block is then one hunk. */
const MOST_EDITS = 600;

/** What differs between two texts, in order. */
export function lineDiff(a: readonly string[], b: readonly string[]): Hunk[] {
  const numbers = new Map<string, number>();
  const numbered = (lines: readonly string[]): Int32Array =>
    Int32Array.from(lines, (line) => {
      const key = line.trim();
      const known = numbers.get(key);
      if (known !== undefined) return known;
      numbers.set(key, numbers.size);
      return numbers.size - 1;
    });
  const left = numbered(a);
  const right = numbered(b);
  const hunks: Hunk[] = [];
  compare(left, 0, left.length, right, 0, right.length, hunks);
  return joined(hunks);
}

function compare(
  a: Int32Array, fromA: number, toA: number, b: Int32Array, fromB: number, toB: number, hunks: Hunk[],
): void {
  while (fromA < toA && fromB < toB && a[fromA] === b[fromB]) {
    fromA++;
    fromB++;
  }
  while (fromA < toA && fromB < toB && a[toA - 1] === b[toB - 1]) {
    toA--;
    toB--;
  }
  if (fromA === toA || fromB === toB) {
    if (fromA < toA || fromB < toB) hunks.push({ fromA, toA, fromB, toB });
    return;
  }
  const anchors = uniqueInOrder(a, fromA, toA, b, fromB, toB);
  if (anchors.length === 0) {
    myers(a, fromA, toA, b, fromB, toB, hunks);
    return;
  }
  for (const [atA, atB] of anchors) {
    compare(a, fromA, atA, b, fromB, atB, hunks);
    fromA = atA + 1;
    fromB = atB + 1;
  }
  compare(a, fromA, toA, b, fromB, toB, hunks);
}

/** Pairs of positions of lines that occur once on either side: the longest sequence that ascends on both. */
function uniqueInOrder(
  a: Int32Array, fromA: number, toA: number, b: Int32Array, fromB: number, toB: number,
): [number, number][] {
  const AGAIN = -1;
  const places = new Map<number, { a: number; b: number }>();
  for (let at = fromA; at < toA; at++) {
    const place = places.get(a[at]!);
    if (place === undefined) places.set(a[at]!, { a: at, b: -2 });
    else place.a = AGAIN;
  }
  for (let at = fromB; at < toB; at++) {
    const place = places.get(b[at]!);
    if (place !== undefined) place.b = place.b === -2 ? at : AGAIN;
  }
  const pairs = [...places.values()].filter((place) => place.a >= 0 && place.b >= 0);
  return longestAscending(pairs);
}

/** Of pairs that ascend in `a`, the longest choice that ascends in `b` too: patience sorting. */
function longestAscending(pairs: readonly { a: number; b: number }[]): [number, number][] {
  const tops: number[] = [];
  const before = new Int32Array(pairs.length).fill(-1);
  pairs.forEach((pair, index) => {
    let low = 0;
    let high = tops.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[tops[middle]!]!.b < pair.b) low = middle + 1;
      else high = middle;
    }
    before[index] = low > 0 ? tops[low - 1]! : -1;
    tops[low] = index;
  });
  const chain: [number, number][] = [];
  for (let at = tops[tops.length - 1] ?? -1; at >= 0; at = before[at]!) {
    chain.push([pairs[at]!.a, pairs[at]!.b]);
  }
  return chain.reverse();
}

/** The shortest edit script of a block in which no line is unique (Myers 1986, the greedy forward search). */
function myers(
  a: Int32Array, fromA: number, toA: number, b: Int32Array, fromB: number, toB: number, hunks: Hunk[],
): void {
  const sizeA = toA - fromA;
  const sizeB = toB - fromB;
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
  }
  hunks.push({ fromA, toA, fromB, toB });
}

function walkBack(
  trace: readonly Int32Array[], edits: number, x: number, y: number, fromA: number, fromB: number, hunks: Hunk[],
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
        ? { fromA: fromA + beforeX, toA: fromA + beforeX, fromB: fromB + beforeY, toB: fromB + beforeY + 1 }
        : { fromA: fromA + beforeX, toA: fromA + beforeX + 1, fromB: fromB + beforeY, toB: fromB + beforeY },
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
