import assert from "node:assert/strict";
import test from "node:test";

import { edited } from "../src/notebook";

const CELL = "%%tilekernel\ndef k(x):\n    a = x + 1\n    return a";

test("a line is replaced in its indentation, where it is as it was", () => {
  const edits = [{ line: 3, old: "a = x + 1", new: "a = x + 2" }];
  assert.equal(edited(CELL, edits), CELL.replace("+ 1", "+ 2"));
  assert.equal(edited(CELL, [{ ...edits[0]!, line: 4 }]), null);
  assert.equal(edited(CELL, [{ ...edits[0]!, line: 40 }]), null);
});

test("lines are inserted and deleted, the last first", () => {
  const inserted = edited(CELL, [
    { line: 3, old: "", new: "    b = 1" },
    { line: 4, old: "return a", new: "" },
  ]);
  assert.equal(inserted, "%%tilekernel\ndef k(x):\n    b = 1\n    a = x + 1");
});
