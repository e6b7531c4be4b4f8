// What is said of lines, and the numbers beside them: words, order, and what a line of another text has.
import assert from "node:assert/strict";
import { test } from "node:test";

import type { IrSide, IrView, MarginNote, MetricData } from "../src/data";
import { barsOf, barWords, metricsOf } from "../src/metrics";
import { allWords, markOf, neighbor, notedLines } from "../src/notes";
import { Side } from "../src/side";

const note = (
  line: number,
  severity: MarginNote["severity"] = "note",
  words = "w",
  advice = "",
  said = "",
): MarginNote => ({ severity, words, origin: "o", line, advice, said });

const metric = (
  name: string,
  stage: string,
  values: Record<number, number>,
  origin = "machine code",
): MetricData => ({ name, unit: `${name}s`, stage, values, origin });

/** A side whose line 1 of TTGIR came from line 7 of the source, and became lines 3 and 4 of the SASS; its line 2 became line 5. */
const side = (parts: Partial<IrSide>): IrSide => ({
  name: "",
  kernel: "k",
  target: "sm_90",
  facts: [],
  failure: "",
  failure_line: 0,
  notice: "",
  texts: [],
  stages: [],
  passes: [],
  map: {
    file: "k.py",
    files: ["k.py"],
    chains: [
      [0, 7, 1],
      [0, 8, 1],
    ],
    origins: { ttgir: [1, 2] },
    links: { "ttgir sass": [0, 0, 1, 1, 2] },
  },
  notes: [],
  controls: [],
  metrics: [],
  layouts: [],
  ...parts,
});

const view = (...sides: IrSide[]): IrView => ({
  kind: "ir",
  title: "",
  sides,
  pairs: [],
  pass_notes: {},
  metric: "",
});

const made = (data: IrSide) =>
  new Side(0, data, {
    part: () => Promise.reject(new Error()),
    fetch: () => Promise.reject(new Error()),
  });

test("the mark of a line is that of the worst note", () => {
  assert.deepEqual(markOf([note(1), note(1, "warning"), note(1, "remark")]), {
    sign: "▲",
    severity: "warning",
  });
  assert.equal(markOf([note(1, "warning"), note(1, "error")]).sign, "✖");
});

test("words have the advice, and the same is said once", () => {
  assert.equal(
    allWords([note(1, "error", "bad", "mask it"), note(1, "error", "bad", "mask it"), note(1)]),
    "error: bad\nTry: mask it\n[o]\n\nnote: w\n[o]",
  );
  assert.equal(
    allWords([note(1, "warning", "one by one", "", "vec = 1")]),
    "warning: one by one\n[o: vec = 1]",
  );
});

test("lines with notes are gone through side by side, and round the end", () => {
  const lines = notedLines(
    view(
      side({ notes: [note(9), note(3), note(0), note(9, "error")] }),
      side({ notes: [note(3)] }),
    ),
  );
  assert.deepEqual(
    lines.map((one) => [one.side, one.line, one.notes.length]),
    [
      [0, 3, 1],
      [0, 9, 2],
      [1, 3, 1],
    ],
  );
  const at = (from: [number, number], forward: boolean) => {
    const found = neighbor(lines, ...from, forward);
    return found && [found.side, found.line];
  };
  assert.deepEqual(at([0, 0], true), [0, 3]);
  assert.deepEqual(at([0, 3], true), [0, 9]);
  assert.deepEqual(at([0, 9], true), [1, 3]);
  assert.deepEqual(at([1, 3], true), [0, 3]);
  assert.deepEqual(at([1, 3], false), [0, 9]);
  assert.deepEqual(at([0, 3], false), [1, 3]);
  assert.equal(neighbor([], 0, 0, true), null);
});

test("numbers are summed toward the source, and repeated toward the machine code, which is said", () => {
  const counted = made(
    side({
      metrics: [
        metric("sector", "ttgir", { 1: 8, 2: 4 }, "run"),
        metric("stall", "sass", { 3: 2, 4: 5, 5: 1 }, "GPU"),
      ],
    }),
  );
  assert.deepEqual(
    [...barsOf(counted, "stall", "source").values],
    [
      [7, 7],
      [8, 1],
    ],
  );
  assert.deepEqual(
    [...barsOf(counted, "sector", "source").values],
    [
      [7, 8],
      [8, 4],
    ],
  );
  assert.deepEqual(
    [...barsOf(counted, "sector", "sass").values],
    [
      [3, 8],
      [4, 8],
      [5, 4],
    ],
  );
  assert.equal(
    barWords(barsOf(counted, "sector", "sass"), 4),
    "8 sectors, of all that its operation became (run)",
  );
  assert.equal(barWords(barsOf(counted, "sector", "source"), 7), "8 sectors (run)");
  assert.equal(barWords(barsOf(counted, "sector", "source"), 1), "");
  assert.equal(barsOf(counted, "none of these", "source").values.size, 0);
});

test("bars that would all be as long are left out of the text that they are of, unless somebody measured them", () => {
  const same = { 3: 1, 4: 1 };
  const one = made(
    side({
      metrics: [metric("instruction", "sass", same), metric("execution", "sass", same, "GPU")],
    }),
  );
  assert.equal(barsOf(one, "instruction", "sass").values.size, 0);
  assert.equal(barsOf(one, "instruction", "source").values.get(7), 2);
  assert.equal(barsOf(one, "execution", "sass").values.size, 2);
});

test("of two sides every metric can be chosen once", () => {
  const left = side({ metrics: [metric("a", "sass", { 3: 1 })] });
  const right = side({ metrics: [metric("a", "sass", { 3: 1 }), metric("b", "ttgir", { 1: 1 })] });
  assert.deepEqual(
    metricsOf(view(left, right)).map((one) => one.name),
    ["a", "b"],
  );
});
