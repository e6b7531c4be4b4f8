import assert from "node:assert/strict";
import { test } from "node:test";
import type { GraphChain, GraphLevel, GraphView, GroupData } from "../src/data";
import { Layout } from "../src/graph_layout";
import { endWords, Lines, Links } from "../src/graph_links";
import { overlaysOf } from "../src/graph_overlays";
import { Tree } from "../src/graph_tree";

/** A level of as many elements as it has origins; what a test does not say is empty. */
function level(
  name: string,
  above: number,
  origins: readonly (readonly number[])[],
  more: Partial<GraphLevel> = {},
): GraphLevel {
  const each = <Value>(value: Value): Value[] => origins.map(() => value);
  return {
    name,
    words: name,
    remark: "",
    above,
    is_drawn: true,
    names: origins.map((_, at) => `${name}${at}`),
    labels: each("call"),
    facts: each(""),
    bytes: each(0),
    inputs: each([]),
    origins,
    lines: each(-1),
    groups: each(-1),
    all_groups: [],
    tab_ids: [],
    places: [],
    ...more,
  };
}

/** Source lines 0 and 1; line 0 is nodes 0 and 1, line 1 node 2; node 0 was decomposed in two, and two levels were made of those. */
const LEVELS = [
  level("source", -1, [[], []]),
  level("bytecode", 0, [[0], [1]], { is_drawn: false }),
  level("fx", 0, [[0], [0], [1]], { lines: [0, 0, 1] }),
  level("aten", 2, [[0], [0], [1], [2], []], { lines: [0, 0, 0, 1, 1] }),
  level("prims", 3, [[0], [1], [2], [3]]),
  level("loops", 3, [
    [0, 1],
    [2, 3],
  ]),
  level("launches", 5, [[0], [1]]),
];
const CHAIN: GraphChain = {
  name: "forward 0",
  remark: "",
  levels: LEVELS.map((_, at) => at),
  fusions: [],
};
const VIEW: GraphView = {
  kind: "graph",
  title: "",
  subtitle: "",
  notes: [],
  texts: [],
  levels: LEVELS,
  chains: [CHAIN],
};

function lit(name: string, ...elements: number[]): Record<string, readonly number[]> {
  const at = LEVELS.findIndex((one) => one.name === name);
  return Object.fromEntries(
    [...new Links(VIEW).lit(CHAIN, { level: at, elements })].map(([number, found]) => [
      LEVELS[number]!.name,
      found,
    ]),
  );
}

test("a node leads up to its line and down to its kernel, and not to its siblings", () => {
  assert.deepEqual(lit("aten", 0), {
    source: [0],
    bytecode: [0],
    fx: [0],
    aten: [0],
    prims: [0],
    loops: [0],
    launches: [0],
  });
  assert.deepEqual(lit("prims", 3), {
    source: [1],
    bytecode: [1],
    fx: [2],
    aten: [3],
    prims: [3],
    loops: [1],
    launches: [1],
  });
});

test("a line of the model leads to all that came of it; a kernel to all that went in", () => {
  assert.deepEqual(lit("source", 0), {
    source: [0],
    bytecode: [0],
    fx: [0, 1],
    aten: [0, 1, 2],
    prims: [0, 1, 2],
    loops: [0, 1],
    launches: [0, 1],
  });
  assert.deepEqual(lit("launches", 1), {
    source: [0, 1],
    bytecode: [0, 1],
    fx: [1, 2],
    aten: [2, 3],
    prims: [2, 3],
    loops: [1],
    launches: [1],
  });
});

test("what has no origin leads to its line alone, and where provenance ends is said", () => {
  const found = new Links(VIEW).lit(CHAIN, { level: 3, elements: [4] });
  assert.deepEqual([found.get(0), found.get(2), found.get(6)], [[1], [], []]);
  assert.match(endWords(VIEW, CHAIN, { level: 3, elements: [4] }, found), /no kernel names it/);
  assert.equal(
    endWords(
      VIEW,
      CHAIN,
      { level: 3, elements: [0] },
      new Links(VIEW).lit(CHAIN, { level: 3, elements: [0] }),
    ),
    "",
  );
});

test("lines of a text stand for elements, and the other way round", () => {
  const lines = new Lines([2, 2, 0, 4, 6, 1, 9, 9, 0]);
  assert.deepEqual(lines.of([0]), [2, 9]);
  assert.deepEqual(lines.of([1, 0]), [2, 4, 5, 6, 9]);
  assert.deepEqual([lines.at(5), lines.at(3)], [[1], []]);
});

/** Two layers with a part each, in a chain of six nodes with an edge past the first layer. */
const GROUPS: GroupData[] = [
  { name: "layers.0", of: "Block", parent: -1 },
  { name: "layers.0.up", of: "Linear", parent: 0 },
  { name: "layers.1", of: "Block", parent: -1 },
  { name: "layers.1.up", of: "Linear", parent: 2 },
];
const DEEP = level("aten", -1, [[], [], [], [], [], []], {
  inputs: [[], [0], [1], [2, 0], [3], [4]],
  groups: [-1, 0, 1, 2, 3, -1],
  all_groups: GROUPS,
});

test("an edge stands in the innermost group that holds both of its ends", () => {
  const tree = new Tree(DEEP);
  const root = tree.inside(-1);
  assert.deepEqual(
    root.items.map(({ element, group }) => [element, group]),
    [
      [0, -1],
      [-1, 0],
      [-1, 2],
      [5, -1],
    ],
  );
  assert.deepEqual(root.edges, [
    { from: 0, to: 1, count: 1, bytes: 0 },
    { from: 1, to: 2, count: 1, bytes: 0 },
    { from: 0, to: 2, count: 1, bytes: 0 },
    { from: 2, to: 3, count: 1, bytes: 0 },
  ]);
  assert.deepEqual(tree.inside(0).edges.length, 1);
  assert.deepEqual(tree.elements(2), [3, 4]);
  assert.deepEqual(tree.around(3), [3, 2]);
});

test("a large graph begins with closed groups", () => {
  const tree = new Tree(DEEP);
  assert.deepEqual([...tree.openAtFirst()], [0, 2, 1, 3]);
  assert.deepEqual([...tree.openAtFirst(6)], [0]);
});

test("boxes of a plan keep apart, and what is open lies within its frame", () => {
  const tree = new Tree(DEEP);
  const plan = new Layout(tree, () => ({ width: 80, height: 30 })).plan(new Set([0, 2]));
  const tops = plan.boxes.map(({ y }) => y);
  assert.deepEqual(
    [...tops].sort((a, b) => a - b),
    tops,
  );
  for (const one of plan.boxes) {
    for (const other of plan.boxes) {
      const apart =
        one === other ||
        one.x + one.width <= other.x ||
        other.x + other.width <= one.x ||
        one.y + one.height <= other.y ||
        other.y + other.height <= one.y;
      assert.ok(apart);
    }
    if (one.inside !== null)
      assert.ok(one.inside.width <= one.width && one.inside.height < one.height);
  }
  assert.deepEqual(
    plan.boxes.map(({ inside }) => inside?.boxes.length ?? 0),
    [0, 2, 2, 0],
  );
});

test("two thousand nodes without modules are laid out in a moment", () => {
  const count = 2000;
  const each = Array.from({ length: count }, (_, at) => at);
  const groups = each.map((at) => Math.floor(at / 40));
  const flat = level(
    "aten",
    -1,
    each.map(() => []),
    {
      inputs: each.map((at) => (at === 0 ? [] : at % 7 === 0 ? [at - 1, at - 7] : [at - 1])),
      groups,
      all_groups: [...new Set(groups)].map((number) => ({
        name: String(number),
        of: "",
        parent: -1,
      })),
    },
  );
  const tree = new Tree(flat);
  const plan = new Layout(tree, () => ({ width: 100, height: 36 })).plan(tree.openAtFirst());
  assert.equal(plan.boxes.length, 50);
});

test("an edge carries the bytes of each value once", () => {
  const tree = new Tree({ ...DEEP, bytes: [8, 1, 2, 4, 16, 32] });
  assert.deepEqual(
    tree.inside(-1).edges.map(({ from, to, bytes }) => [from, to, bytes]),
    [
      [0, 1, 8],
      [1, 2, 2],
      [0, 2, 8],
      [2, 3, 16],
    ],
  );
});

test("nodes of one kernel are in one hull, and pairs that were not fused are over the loop IR", () => {
  const pair = { first: "op0", second: "op1", pair: "op0, op1", elements: [0, 1], saved_bytes: 64 };
  const refused = { ...pair, fused: false, reason: "no shared data" };
  const chain = {
    ...CHAIN,
    fusions: [refused, { ...refused, fused: true }, { ...refused, saved_bytes: 0 }],
  };
  const links = new Links(VIEW);
  assert.deepEqual(overlaysOf(VIEW, chain, 5, links), {
    hulls: [],
    refusals: [{ from: 0, to: 1, row: refused }],
  });
  const { hulls, refusals } = overlaysOf(VIEW, chain, 3, links);
  assert.deepEqual(refusals, []);
  assert.deepEqual(hulls, [
    { name: "launches0", elements: [0, 1] },
    { name: "launches1", elements: [2, 3] },
  ]);
  assert.deepEqual(overlaysOf(VIEW, chain, 6, links).hulls, []);
});
