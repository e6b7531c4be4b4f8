import assert from "node:assert/strict";
import { test } from "node:test";
import type { FlightData, StepData, StepperView } from "../src/data";
import { Clock, inFlight, rowsOf } from "../src/stepper_clock";
import { cellWords, TensorMemory } from "../src/stepper_memory";
import { paintNumbers, rangeOf, scaleOf } from "../src/stepper_picture";
import { indexOf, numberOf, numberText, readWatched, TraceReader } from "../src/stepper_trace";

/** Two programs write [1, 2] to elements 1 and 2 of a tensor [9, 9, 9, 9], then [5] to element 2; a helper is called between. */
function recorded(): { data: StepperView; buffer: ArrayBuffer } {
  const buffer = new ArrayBuffer(64);
  new Float32Array(buffer, 0, 4).fill(9);
  new Int32Array(buffer, 16, 4).set([1, 2, 2, 1]);
  new Float32Array(buffer, 32, 2).set([1, 2]);
  new Float32Array(buffer, 40, 1).set([5]);
  const whole = { left_out: "", in_kernel: false };
  const scalar = (words: string): StepperView["values"][number] => ({
    type: "int32",
    words,
    shape: [],
    kept: "exact",
    elements: null,
    ...whole,
  });
  const step = (more: Partial<StepData>): StepData => ({
    frame: 0,
    line: 1,
    turns: [],
    operation: "",
    changed: {},
    accesses: [],
    writes: [],
    ...more,
  });
  const frame = {
    function: "total",
    place: "total.py",
    source: 0,
    partition: "",
    caller: null,
    called_from: "",
    given: {},
  };
  const data: StepperView = {
    kind: "steps",
    title: "",
    kernel: "total",
    heading: "",
    target: "sm_90",
    unit: "step",
    grid: [2, 1, 1],
    programs: [
      [0, 0, 0],
      [1, 0, 0],
    ],
    notes: [],
    fault: "",
    fault_step: null,
    first: 10,
    step_count: 14,
    focus: 10,
    sources: [{ place: "total.py", first_line: 1, lines: ["a", "b", "c"] }],
    flights: [],
    frames: [
      { ...frame, program: [0, 0, 0], given: { n: 0 } },
      {
        ...frame,
        function: "helper",
        program: [0, 0, 0],
        caller: 0,
        called_from: "total.py, line 1",
      },
      { ...frame, program: [1, 0, 0] },
    ],
    values: [
      scalar("3"),
      scalar("4"),
      scalar("5"),
      {
        type: "float32[1, 2]",
        words: "1 .. 2",
        shape: [1, 2],
        kept: "exact",
        elements: { dtype: "float32", at: 32, averaged: false, rows: 1, columns: 2 },
        ...whole,
      },
    ],
    places: [
      { at: 16, runs: 1, count: 2 },
      { at: 24, runs: 1, count: 1 },
    ],
    arguments: [
      {
        name: "z",
        type: "float32[4]",
        words: "9",
        shape: [4],
        elements: { dtype: "float32", at: 0, averaged: false, rows: 1, columns: 4 },
        ...whole,
      },
    ],
    steps: [
      step({ changed: { acc: 1 } }),
      step({ frame: 1, line: 3, changed: { constructor: 2 } }),
      step({
        line: 2,
        changed: { acc: 3 },
        accesses: [{ operation: "store", argument: 0, places: 0, words: "" }],
        writes: [{ argument: 0, places: 0, at: 32 }],
      }),
      step({
        frame: 2,
        line: 2,
        accesses: [{ operation: "atomic", argument: 0, places: 1, words: "" }],
        writes: [{ argument: 0, places: 1, at: 40 }],
      }),
    ],
    wrong: null,
    numbers: null,
  };
  return { data, buffer };
}

test("variables are those of the step's call, and a name is looked for in its callers too", () => {
  const { data, buffer } = recorded();
  const reader = new TraceReader(data, buffer);
  assert.deepEqual(
    [...reader.variables(0, 10)],
    [
      ["n", 0],
      ["acc", 1],
    ],
  );
  assert.deepEqual([...reader.variables(1, 11)], [["constructor", 2]]);
  assert.deepEqual(
    [...reader.variables(0, 12)],
    [
      ["n", 0],
      ["acc", 3],
    ],
  );
  assert.equal(reader.watchedText({ name: "acc", index: null }, 11), "4");
  assert.equal(reader.watchedText({ name: "acc", index: [0, 1] }, 12), "2");
  assert.equal(reader.watchedText({ name: "acc", index: [0, -1] }, 12), "2");
  assert.match(
    reader.watchedText({ name: "acc", index: [2, 0] }, 12),
    /no such element: it is float32\[1, 2\]/,
  );
  assert.equal(reader.watchedText({ name: "acc", index: null }, 13), "not here");
});

test("the calls that led to a step are told, the innermost first", () => {
  const { data, buffer } = recorded();
  const deeper = { ...data.frames[1]!, caller: 1, called_from: "total.py, line 3" };
  const reader = new TraceReader({ ...data, frames: [...data.frames, deeper] }, buffer);
  assert.deepEqual(reader.depths, [0, 1, 0, 2]);
  assert.deepEqual(
    [reader.calls(0), reader.calls(1), reader.calls(3)],
    [[], ["total.py, line 1"], ["total.py, line 3", "total.py, line 1"]],
  );
});

test("all names are those of every call, what it begins with included", () => {
  const { data, buffer } = recorded();
  assert.deepEqual(
    new Set(new TraceReader(data, buffer).allNames()),
    new Set(["n", "acc", "constructor"]),
  );
});

test("searches go both ways and end where the steps do", () => {
  const { data, buffer } = recorded();
  const reader = new TraceReader(data, buffer);
  const changes = (step: StepData): boolean => Object.hasOwn(step.changed, "acc");
  assert.equal(reader.find(10, true, changes), 12);
  assert.equal(reader.find(12, false, changes), 10);
  assert.equal(reader.find(12, true, changes), null);
  assert.equal(reader.firstOf([1, 0, 0]), 13);
  assert.equal(reader.firstOf([5, 0, 0]), null);
  assert.equal(reader.isAt(reader.step(11), 0, 3), true);
  assert.deepEqual(reader.names(), ["acc", "constructor"]);
});

test("memory goes forwards and backwards, however far", () => {
  const { data, buffer } = recorded();
  const tensor = new TensorMemory(new TraceReader(data, buffer), 0);
  const after: Record<number, number[]> = {
    10: [9, 9, 9, 9],
    11: [9, 9, 9, 9],
    12: [9, 1, 2, 9],
    13: [9, 1, 5, 9],
  };
  for (const number of [13, 12, 10, 13, 11, 12, 13, 10]) {
    tensor.goTo(number - 9);
    assert.deepEqual([...tensor.shown!], after[number]);
  }
  tensor.goTo(4);
  assert.deepEqual(
    [[...tensor.reads], [...tensor.writes]],
    [
      [0, 0, 1, 0],
      [0, 1, 2, 0],
    ],
  );
  tensor.goTo(1);
  assert.deepEqual(
    [[...tensor.reads], [...tensor.writes]],
    [
      [0, 0, 0, 0],
      [0, 0, 0, 0],
    ],
  );
  assert.deepEqual([...new Float32Array(buffer, 0, 4)], [9, 9, 9, 9]);
});

test("programs play together: the k-th step of each at once, and memory follows", () => {
  const { data, buffer } = recorded();
  const reader = new TraceReader(data, buffer);
  const alone = new Clock(reader, false);
  assert.deepEqual([alone.first, alone.last, alone.order], [10, 13, [10, 11, 12, 13]]);
  const clock = new Clock(reader, true);
  assert.deepEqual([clock.first, clock.last, clock.order], [0, 2, [10, 13, 11, 12]]);
  assert.deepEqual(
    [0, 1, 2].map((place) => [clock.steps(place), clock.count(place), clock.stepAt(1, place)]),
    [
      [[10, 13], 2, 13],
      [[11], 3, 13],
      [[12], 4, 13],
    ],
  );
  assert.deepEqual([clock.laneOf(13), clock.placeOf(13), clock.placeOf(12)], [1, 0, 2]);
  const tensor = new TensorMemory(reader, 0);
  tensor.goTo(4);
  tensor.follow(clock.order);
  tensor.goTo(2);
  assert.deepEqual([...tensor.shown!], [9, 9, 5, 9]);
  tensor.goTo(4);
  assert.deepEqual([...tensor.shown!], [9, 1, 2, 9]);
  tensor.follow(alone.order);
  tensor.goTo(4);
  assert.deepEqual([...tensor.shown!], [9, 1, 5, 9]);
});

test("turns of loops are spans, and accesses ticks", () => {
  const { data, buffer } = recorded();
  const turns = [
    ["iteration 0 of a"],
    ["iteration 0 of a", "iteration 0 of b"],
    ["iteration 1 of a"],
    [],
  ];
  const steps = data.steps.map((step, at) => ({ ...step, turns: turns[at]! }));
  const [lane] = new Clock(
    new TraceReader({ ...data, fault_step: 13, steps }, buffer),
    false,
  ).lanes();
  assert.deepEqual(lane!.spans, [
    { from: 10, to: 11, depth: 0 },
    { from: 11, to: 11, depth: 1 },
    { from: 12, to: 12, depth: 0 },
  ]);
  assert.deepEqual(lane!.ticks, [
    { at: 12, color: "written" },
    { at: 13, color: "written" },
  ]);
  assert.deepEqual(lane!.flags, [13]);
});

test("groups of warps and buffers have rows of bars, and operations a state at each step", () => {
  const { data, buffer } = recorded();
  const [program, stands_for] = [[0, 0, 0], "copy"] as const;
  const flights: FlightData[] = [
    { program, stands_for, words: "load", rows: ["a[0]"], issued: 7, completed: 11 },
    { program, stands_for, words: "store", rows: ["a[0]", "b"], issued: 11, completed: null },
  ];
  const frames = data.frames.map((frame, at) => (at === 1 ? { ...frame, partition: "p" } : frame));
  const reader = new TraceReader({ ...data, frames, flights }, buffer);
  const rows = [false, true].map((isTogether) =>
    rowsOf(reader, new Clock(reader, isTogether)).map(({ name, bars }) =>
      [name, ...bars.map(({ from, to }) => `${from} to ${to}`)].join("; "),
    ),
  );
  assert.deepEqual(rows, [
    ["p; 11 to 11", "a[0]; 10 to 11; 11 to 12", "b; 11 to 12"],
    ["p (0, 0, 0); 1 to 1", "a[0] (0, 0, 0); 0 to 1; 1 to 2", "b (0, 0, 0); 1 to 2"],
  ]);
  const states = [10, 11, 12, 13].map((step) => inFlight(reader, step).map(({ words }) => words));
  assert.deepEqual(states, [
    ["pending: load"],
    ["complete: load", "issued: store"],
    ["pending: store"],
    [],
  ]);
});

test("every variable has a place, whether or not it has a value yet", () => {
  const { data, buffer } = recorded();
  const reader = new TraceReader(data, buffer);
  assert.deepEqual(reader.constants(0), ["n = 3"]);
  const names = [...reader.slots(0).keys()];
  assert.ok(names.length > 0 && !names.includes("n"));
  assert.ok(names.every((name) => reader.firstStep(0, name) >= 10));
});

test("numbers are said in as few digits as are exact", () => {
  assert.equal(numberText(Math.fround(0.1), "float32"), "0.1");
  assert.equal(numberText(0.1, "float64"), "0.1");
  assert.equal(numberText(Math.fround(1 / 3), "float32"), "0.33333334");
  assert.equal(numberText(16777217n, "int64"), "16777217");
  assert.equal(numberText(9007199254740993n, "int64"), "9007199254740993");
  assert.deepEqual(
    [NaN, Infinity, -Infinity, -0].map((one) => numberText(one, "float32")),
    ["NaN", "∞", "-∞", "-0"],
  );
  assert.deepEqual(
    [1, 0].map((one) => numberText(one, "bool")),
    ["True", "False"],
  );
});

test("indices lead to numbers in reading order and back", () => {
  assert.deepEqual(indexOf([2, 3, 4], 23), [1, 2, 3]);
  assert.equal(numberOf([2, 3, 4], [1, 2, 3]), 23);
  assert.equal(numberOf([2, 3], [-1, 0]), 3);
  assert.equal(numberOf([2, 3], [2, 0]), null);
  assert.equal(numberOf([2, 3], [1]), null);
  assert.deepEqual(indexOf([], 0), []);
});

test("what is watched is a name, or an element", () => {
  assert.deepEqual(readWatched(" acc "), { name: "acc", index: null });
  assert.deepEqual(readWatched("acc[0, -3]"), { name: "acc", index: [0, -3] });
  for (const bad of ["", "acc[", "acc[x]", "acc[1,]", "a b", "<b>"])
    assert.equal(readWatched(bad), null);
});

test("a tensor that a kernel sent is read from its own bytes", () => {
  const { data, buffer } = recorded();
  const sent = new ArrayBuffer(64);
  new Float32Array(sent, 0, 4).set([9, 9, 9, 8]);
  new Int32Array(sent, 16, 2).set([1, 2]);
  new Float32Array(sent, 24, 2).set([6, 7]);
  const part = {
    elements: data.arguments[0]!.elements!,
    places: [{ at: 16, runs: 1, count: 2 }],
    steps: { 2: { places: [0], writes: [{ argument: 0, places: 0, at: 24 }] } },
  };
  const tensor = new TensorMemory(new TraceReader(data, buffer), 0, { part, buffer: sent });
  tensor.goTo(3);
  assert.deepEqual(
    [[...tensor.shown!], [...tensor.writes]],
    [
      [9, 6, 7, 8],
      [0, 1, 1, 0],
    ],
  );
  tensor.goTo(2);
  assert.deepEqual([...tensor.shown!], [9, 9, 9, 8]);
});

test("a cell of a small picture says which elements it stands for", () => {
  assert.equal(cellWords([100, 70], 64, 64, 0), "[0, 0]");
  assert.equal(cellWords([128, 256], 64, 64, 65), "[2:4, 4:8]");
  assert.equal(cellWords([1 << 20], 64, 64, 64), "[16384] and its neighbors");
  assert.equal(cellWords([4, 64, 128], 64, 64, 64 * 16 + 1), "[1, 0, 2] and its neighbors");
});

test("NaN and infinite stand out, and what was never touched is faint", () => {
  const pixels = new Uint32Array(4);
  const numbers = Float32Array.of(NaN, Infinity, 1, 2);
  assert.deepEqual(rangeOf(numbers), [1, 2]);
  paintNumbers(pixels, numbers, null, [Uint32Array.of(1, 1, 1, 0)]);
  const hex = [...pixels].map((pixel) => pixel.toString(16));
  assert.deepEqual(hex, ["ff140096", "ffffa0ff", "ff540144", "5525e7fd"]);
});

test("a zero is gray, among other numbers and alone, but not in a mask", () => {
  const pixels = new Uint32Array(2);
  const painted = (
    ...given: Parameters<typeof paintNumbers> extends [unknown, ...infer More] ? More : never
  ): string[] => {
    paintNumbers(pixels, ...given);
    return [...pixels].map((pixel) => pixel.toString(16));
  };
  assert.deepEqual(painted(Float32Array.of(0, 0)), ["ffc2b2b2", "ffc2b2b2"]);
  assert.deepEqual(painted(Float32Array.of(0, -1)), ["ffc2b2b2", "ff540144"]);
  assert.deepEqual(painted(Uint8Array.of(0, 1), scaleOf("bool[2]")), ["ff540144", "ff25e7fd"]);
});

test("a mask that is on everywhere looks on", () => {
  const pixels = new Uint32Array(2);
  paintNumbers(pixels, Uint8Array.of(1, 1), scaleOf("bool[2]"));
  assert.deepEqual(
    [...pixels].map((pixel) => pixel.toString(16)),
    ["ff25e7fd", "ff25e7fd"],
  );
  assert.equal(scaleOf("float32[2]"), null);
});
