// The same questions as tests/views/test_data.py asks of Python's SourceMap: both have to give the fixture's answers.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { SourceMapData } from "../src/data";
import { SourceMap } from "../src/source_map";

interface Fixture {
  map: SourceMapData;
  answers: Record<string, Record<string, number[]>>;
}

const fixture = JSON.parse(readFileSync(new URL("../../test/source_map.json", import.meta.url), "utf8")) as Fixture;

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
