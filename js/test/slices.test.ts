import assert from "node:assert/strict";
import { test } from "node:test";
import { atOnce, Sliced, type Work } from "../src/slices";

/** Counts to a number, and a clock on which each count takes a millisecond. */
function counting(to: number): { work: Work<number>; now: () => number } {
  let time = 0;
  function* count(): Work<number> {
    while (time < to) {
      time++;
      yield;
    }
    return time;
  }
  return { work: count(), now: () => time };
}

test("work stops where its slice ends, and goes on from there", () => {
  const { work, now } = counting(50);
  const sliced = new Sliced(work, now);
  const stops: number[] = [];
  while (!sliced.slice()) {
    assert.equal(sliced.result, null);
    stops.push(now());
  }
  assert.deepEqual(stops, [20, 40]);
  assert.equal(sliced.result, 50);
  assert.equal(sliced.slice(), true, "what is finished stays so");
});

test("other tasks come between two slices", async () => {
  const { work, now } = counting(100);
  const sliced = new Sliced(work, now);
  const heard: number[] = [];
  const beside = setInterval(() => heard.push(now()), 0);
  await sliced.finish(() => true);
  clearInterval(beside);
  assert.equal(sliced.result, 100);
  assert.ok(
    heard.some((time) => time > 0 && time < 100),
    `${heard}`,
  );
});

test("work that no one wants any more rests until somebody does", async () => {
  const { work, now } = counting(100);
  const sliced = new Sliced(work, now);
  await sliced.finish(() => now() < 30);
  assert.equal(sliced.result, null);
  assert.equal(now(), 40);
  await sliced.finish(() => true);
  assert.equal(sliced.result, 100);
});

test("work can be done at once", () => {
  assert.equal(atOnce(counting(7).work), 7);
});
