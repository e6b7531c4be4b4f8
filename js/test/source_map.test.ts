// The same questions as tests/viz/test_explorer_data.py asks of Python's SourceMap: both have to give the fixture's answers.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { SourceMapData } from "../src/data";
import { SourceMap } from "../src/source_map";

interface Fixture {
  map: SourceMapData;
  answers: Record<string, Record<string, number[]>>;
}

const fixture = JSON.parse(
  readFileSync(new URL("../../test/source_map.json", import.meta.url), "utf8"),
) as Fixture;

test("lines lead where Python's source map leads them", () => {
  const map = new SourceMap(fixture.map);
  let asked = 0;
  for (const [pair, lines] of Object.entries(fixture.answers)) {
    const [from, to] = pair.split(" ") as [string, string];
    for (const [line, expected] of Object.entries(lines)) {
      assert.deepEqual([...map.lines(from, to, Number(line))], expected, `${pair} ${line}`);
      asked++;
    }
  }
  assert.ok(asked > 500, `${asked} questions`);
});

test("a text that the map does not know leads nowhere", () => {
  const map = new SourceMap(fixture.map);
  assert.deepEqual([...map.lines("source", "nowhere", 1)], []);
  assert.deepEqual([...map.lines("nowhere", "ttir", 1)], []);
});

/** Two calls of line 5 of a helper: SASS line 1 is of the first, line 2 names no call; the module's lines are of the first and the second. */
const HELPER: SourceMapData = {
  file: "kernel.py",
  files: ["kernel.py", "helper.py"],
  chains: [
    [1, 5, 0, 0, 58, 0],
    [1, 5, 9, 0, 58, 3],
    [1, 5, 9, 0, 59, 3],
    [1, 5, 0],
  ],
  origins: { module: [2, 3], sass: [1, 4] },
  links: {},
};

test("two calls of one helper are told apart where both texts name their callers", () => {
  const map = new SourceMap(HELPER);
  assert.deepEqual([...map.lines("sass", "module", 1)], [1]);
  assert.deepEqual([...map.lines("module", "sass", 2)], [2]);
  assert.deepEqual([...map.lines("sass", "module", 2)], [1, 2]);
});

test("names of a file are no names of JavaScript's objects", () => {
  const map = new SourceMap(fixture.map);
  for (const name of ["constructor", "__proto__", "toString", "hasOwnProperty"]) {
    assert.deepEqual([...map.lines("source", name, 1)], []);
    assert.deepEqual([...map.lines(name, "ttir", 1)], []);
  }
});
