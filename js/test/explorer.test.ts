import assert from "node:assert/strict";
import { test } from "node:test";
import { fromTo } from "../src/explorer_head";

test("a delta has its unit once, scaled", () => {
  assert.equal(fromTo("156", "109"), "156 to 109");
  assert.equal(fromTo("40,960 bytes", "57,344 bytes"), "40 to 56 KB");
  assert.equal(fromTo("0 bytes", "512 bytes"), "0 to 512 bytes");
  assert.equal(fromTo("1,536 bytes", "0 bytes"), "1.5 to 0 KB");
  assert.equal(fromTo("nothing", "4 bytes stored"), "nothing → 4 bytes stored");
});
