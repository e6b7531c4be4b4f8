import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConfigData, TuningView } from "../src/data";
import { Openings, sideBySide, turned } from "../src/openings";
import { isWide, numberWords, roundNumbers, scaleOf, scaleOfValues } from "../src/scales";
import {
  columnsOf,
  compared,
  configWords,
  factsOf,
  levels,
  sorted,
  spaceOf,
  TuningState,
} from "../src/tuning_state";

const config = (
  number: number,
  us: number | null,
  values: ConfigData["values"],
  more: Partial<ConfigData> = {},
): ConfigData => ({
  sweep: 0,
  number,
  values,
  us,
  lower: us && us * 0.9,
  upper: us && us * 1.1,
  standing: "behind",
  runs: 10,
  gb_per_s: null,
  tflop_per_s: null,
  estimate: null,
  registers: 32,
  spills: 0,
  shared: null,
  occupancy: 0.5,
  limited_by: "",
  matrix: "",
  checked: "",
  unchecked: "",
  dropped: "",
  why: "",
  untimed_rank: number,
  ...more,
});

const view = (...configs: ConfigData[]): TuningView => ({
  kind: "tuning",
  title: "add",
  plot: "times",
  sizes: [],
  notes: [],
  estimate_error: 0.09,
  opened: [],
  pairs: [],
  configs,
  sweeps: [
    {
      kernel: "add",
      name: "n=1",
      machine: "GPU",
      launch: "",
      answer: "",
      words: [],
      parameters: ["BLOCK", "mode"],
      varying: ["BLOCK", "mode"],
      baselines: {},
      knows_kernel: true,
      how_to_open: "",
      space: "",
    },
  ],
});

const numbers = (state: TuningState): number[] =>
  state.shown.map(({ config: { number } }) => number);

test("a linear scale keeps order and space, a logarithmic one keeps ratios", () => {
  const linear = scaleOf([10, 20], 0, 100);
  assert.ok(linear.at(10) > 0 && linear.at(20) < 100);
  assert.equal(Math.round(linear.at(15)), 50);
  assert.ok(Math.abs(linear.value(0.5) - 15) < 1e-9);
  const log = scaleOf([1, 100], 300, 0, { log: true });
  assert.equal(Math.round(log.at(10)), 150);
  assert.ok(Math.abs(log.at(1) - log.at(10) - (log.at(10) - log.at(100))) < 1e-9);
  assert.ok(
    log.ticks.includes(10) && log.ticks.every((tick) => log.at(tick) >= 0 && log.at(tick) <= 300),
  );
  assert.equal(scaleOf([3, 8], 0, 1, { zero: true }).at(0), 0);
});

test("a scale of one value, of none, and of zeros on a logarithmic axis is still one", () => {
  for (const values of [[5], [], [0, 0], [Number.NaN]]) {
    for (const log of [false, true]) {
      const scale = scaleOf(values, 0, 100, { log });
      assert.ok(Number.isFinite(scale.at(5)), `${values} ${log}`);
      assert.ok(scale.ticks.length < 20);
    }
  }
  assert.deepEqual(scaleOfValues([512, 256, 512], 0, 10).ticks, [256, 512]);
});

test("ticks are round numbers, and there are enough of them", () => {
  assert.deepEqual(roundNumbers(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(roundNumbers(0.1, 0.32, 4), [0.1, 0.2, 0.3]);
  for (const [low, high] of [
    [0.9, 1.1],
    [200, 1700],
    [3, 4000],
    [1e-3, 1e6],
  ] as const) {
    const { ticks } = scaleOf([low, high], 0, 400, { log: true });
    assert.ok(ticks.length >= 3 && ticks.length <= 12, `${low} to ${high}: ${ticks}`);
  }
  assert.deepEqual([isWide([1, 4]), isWide([1, 6]), isWide([])], [false, true, false]);
});

test("numbers have four digits", () => {
  assert.deepEqual([218.6182, 0.0123456, 12480.4, 32, 1000.4].map(numberWords), [
    "218.6",
    "0.01235",
    "12,480",
    "32",
    "1000",
  ]);
});

test("a table is sorted by any column, and what has no value comes last both ways", () => {
  const state = new TuningState(
    view(
      config(0, 30, [64, "a"]),
      config(1, null, [128, "b"]),
      config(2, 10, [128, "b2"]),
      config(3, 20, [64, "b10"]),
    ),
  );
  assert.deepEqual(numbers(state), [2, 3, 0, 1]);
  state.sortBy("us");
  assert.deepEqual(numbers(state), [0, 3, 2, 1]);
  state.sortBy("BLOCK");
  assert.deepEqual(numbers(state), [0, 3, 1, 2]);
  state.sortBy("mode");
  assert.deepEqual(numbers(state), [0, 1, 2, 3]);
  assert.deepEqual(
    sorted(state.all, state.columns(), { column: "gone", descending: true }).map(
      ({ place }) => place,
    ),
    [3, 2, 1, 0],
  );
  assert.ok(compared("b2", "b10") < 0 && compared(3, "3") < 0);
});

test("filters leave what they name, and another sweep takes them away", () => {
  const data = view(
    config(0, 30, [64, "a"]),
    config(1, 20, [128, null]),
    config(2, 10, [128, "a"]),
    { ...config(0, 5, [1, "a"]), sweep: 1 },
  );
  const state = new TuningState({ ...data, sweeps: [data.sweeps[0]!, data.sweeps[0]!] });
  state.filter("BLOCK", 128);
  assert.deepEqual(numbers(state), [2, 1]);
  state.filter("mode", null);
  assert.deepEqual(numbers(state), [1]);
  assert.deepEqual(levels(state.all, 1), ["a", null]);
  state.choose(1);
  assert.deepEqual([state.filters.size, numbers(state)], [0, [0]]);
  assert.equal(state.shown[0]!.place, 3);
});

test("dropped configs are in the table, not in the race", () => {
  const state = new TuningState(
    view(
      config(0, 1, [1, "a"], {
        standing: "dropped",
        dropped: "wrong result",
        why: "z_ptr\ndiffers",
      }),
      config(1, 5, [2, "a"], { standing: "best" }),
    ),
  );
  assert.deepEqual(
    state.ranked.map(({ place }) => place),
    [1],
  );
  assert.equal(state.shown.length, 2);
  assert.deepEqual(factsOf(state.entries[0]!.config).at(-1), ["dropped", "wrong result: z_ptr"]);
});

test("columns are the parameters that vary and what is known of some config", () => {
  const { sweeps, configs } = view(
    config(0, null, [1, null], { registers: null, occupancy: null, spills: null }),
  );
  assert.deepEqual(
    columnsOf(sweeps[0]!, configs).map(({ name }) => name),
    ["config", "BLOCK", "mode"],
  );
  assert.equal(configWords(sweeps[0]!, configs[0]!), "BLOCK=1");
  assert.deepEqual(factsOf(configs[0]!), []);
});

test("a selection is written as a space, with how many configs that makes", () => {
  const all = view(config(0, 3, [64, "a"]), config(1, 1, [128, "a"]), config(2, 2, [64, "b"]));
  const { words, count } = spaceOf(all.sweeps[0]!, all.configs);
  assert.equal(words, "--space BLOCK=64,128 --space mode=a,b");
  assert.equal(count, 4);
});

test("what is the better the larger it is comes first when a column is sorted by it", () => {
  const all = view(config(0, 3, [64, "a"]), config(1, 1, [128, "a"]));
  const state = new TuningState({
    ...all,
    sweeps: [{ ...all.sweeps[0]!, baselines: { torch: 2 } }],
  });
  state.sortBy("% of torch");
  assert.deepEqual(numbers(state), [1, 0]);
  state.sortBy("us");
  assert.deepEqual(numbers(state), [1, 0]);
  const frozen = state.columns().filter(({ isFrozen }) => isFrozen);
  assert.deepEqual(
    frozen.map(({ name }) => name),
    ["config", "us", "BLOCK", "mode"],
  );
});

test("a selection is kept in its order, and told", () => {
  const state = new TuningState(view(config(0, 1, [1, "a"]), config(1, 2, [2, "a"])));
  const told: string[] = [];
  state.onchange((what) => told.push(what));
  state.select([1]);
  state.toggle(0);
  assert.deepEqual(state.selected, [1, 0]);
  state.toggle(1);
  assert.deepEqual(state.selected, [0]);
  state.point(1);
  state.point(1);
  assert.deepEqual(told, ["selected", "selected", "selected", "pointed"]);
});

test("two explorers side by side keep each its long texts", async () => {
  const opened = (name: string) =>
    ({
      data: {
        kind: "ir",
        title: name,
        pairs: [],
        pass_notes: { [name]: "note" },
        sides: [{ name, kernel: "add", target: "sm_90", texts: [{ part: 0 }, { part: 1 }] }],
      },
      sources: {
        part: (number: number) => Promise.resolve(`${name} ${number}`),
        fetch: (side: number, text: number) => Promise.resolve(`${name} asked ${side} ${text}`),
      },
    }) as unknown as Parameters<typeof sideBySide>[0];
  const pairs = [{ label: "ttir.cse", left: 3, right: null, equal: false }];
  const both = sideBySide(opened("a"), opened("b"), ["config 1", "config 2"], pairs);
  assert.deepEqual(
    both.data.sides.map(({ name }) => name),
    ["config 1", "config 2"],
  );
  const [left, right] = both.data.sides.map(({ texts }) => texts[1]!.part);
  assert.deepEqual(
    [await both.sources.part(left!), await both.sources.part(right!)],
    ["a 1", "b 1"],
  );
  assert.deepEqual(
    [await both.sources.fetch(0, 5), await both.sources.fetch(1, 5)],
    ["a asked 0 5", "b asked 0 5"],
  );
  assert.deepEqual(Object.keys(both.data.pass_notes), ["a", "b"]);
  assert.deepEqual(turned(pairs), [{ label: "ttir.cse", left: null, right: 3, equal: false }]);
});

test("a sweep of a file says how its configs are opened", () => {
  const one = view(config(0, 1, [64, "a"]));
  const saved = { ...one.sweeps[0]!, knows_kernel: false, how_to_open: "so" };
  const opened = new Openings(
    { ...one, sweeps: [saved] },
    () => Promise.reject(new Error("no part")),
    () => Promise.reject(new Error("no request")),
  );
  assert.match(opened.whyNot([0])!, /read from a file. so/);
  assert.match(opened.whyNone()!, /read from a file. so/);
});
