// The timeline: what a selection sums, and how its window moves.
import assert from "node:assert/strict";
import { test } from "node:test";
import { beginnings, moved, rowWords, slicesOf, sumsIn } from "../src/parts/timeline";

const rows = [
  { program: 0, warp: 0, events: 2 },
  { program: 0, warp: 1, events: 1 },
];

/** Two events of the first row and one of the second, as Python packs them. */
function packed(): ArrayBuffer {
  const bytes = new ArrayBuffer(60);
  new Float64Array(bytes, 0, 3).set([0, 10, 5]);
  new Float64Array(bytes, 24, 3).set([10, 30, 25]);
  new Int32Array(bytes, 48, 3).set([7, 8, 7]);
  return bytes;
}

test("a selection sums what lies in it, by name", () => {
  const [slices, begins] = [slicesOf(packed()), beginnings(rows)];
  const all = sumsIn(slices, begins, { from: 0, to: 30, first: 0, last: 1 });
  assert.deepEqual([...all], [[7, 30], [8, 20]]); // prettier-ignore
  const part = sumsIn(slices, begins, { from: 8, to: 12, first: 0, last: 0 });
  assert.deepEqual([...part], [[7, 2], [8, 2]]); // prettier-ignore
  assert.equal(sumsIn(slices, begins, { from: 26, to: 30, first: 1, last: 1 }).size, 0);
});

test("a window zooms around a time, and stays in the whole", () => {
  assert.deepEqual(moved({ from: 0, to: 100 }, 100, { factor: 0.5, around: 20 }), {
    from: 10,
    to: 60,
  });
  assert.deepEqual(moved({ from: 50, to: 90 }, 100, { by: 1 }), { from: 60, to: 100 });
  assert.deepEqual(moved({ from: 10, to: 60 }, 100, { factor: 4 }), { from: 0, to: 100 });
});

test("rows are named by program and warp", () => {
  assert.equal(rowWords(rows[1]!), "program 0, warp 1");
  assert.equal(rowWords({ program: -1, warp: -1, events: 1 }), "launches");
});
