import assert from "node:assert/strict";
import { test } from "node:test";
import { Text } from "../src/side";

const text = (content: string, skipped: number[]): Text =>
  new Text("0/0", { language: "mlir", content, part: 0, line_count: 0, skipped }, content, () =>
    Promise.reject(new Error("unused")),
  );

test("shown lines keep the numbers of the full text", () => {
  const one = text("a\nb\nc", [1, 2, 4]);
  assert.deepEqual(
    [1, 2, 3].map((line) => one.number(line)),
    [3, 5, 6],
  );
  assert.deepEqual(
    [1, 2, 3, 4, 5, 6, 7].map((number) => one.shown(number)),
    [0, 0, 1, 0, 2, 3, 0],
  );
});

test("an empty text has no line that anything leads to", () => {
  assert.equal(text("", []).shown(2), 0);
});

test("a text that was left out is asked for once", async () => {
  let asked = 0;
  const late = new Text(
    "0/1",
    { language: "mlir", content: null, part: 0, line_count: 2, skipped: [] },
    null,
    () => {
      asked++;
      return Promise.resolve("x\ny");
    },
  );
  assert.deepEqual([late.isHere, late.isAway], [false, true]);
  await late.load();
  await late.load();
  assert.deepEqual([late.isHere, late.lines, asked], [true, ["x", "y"], 1]);
});
