// Where the items of a graph are: dagre lays out each open group by itself, when it is first seen.
import { Graph, layout } from "@dagrejs/dagre";
import type { Item, Tree } from "./graph_tree";

export interface Point {
  x: number;
  y: number;
}

/** An item in its place, from the top left of what it is in. */
export interface Box extends Point {
  item: Item;
  width: number;
  height: number;
  /** What is in it; null for what is closed, and for elements. */
  inside: Plan | null;
}

export interface Line {
  /** Places in `boxes`. */
  from: number;
  to: number;
  bytes: number;
  points: readonly Point[];
}

export interface Plan {
  width: number;
  height: number;
  boxes: readonly Box[];
  lines: readonly Line[];
}

/** The size of an item that is closed, or an element. */
export type Measure = (item: Item) => { width: number; height: number };

/** Around what an open group holds; its name is above it. */
export const PADDING = 12;
export const TITLE = 22;
/** Items from which on the best ranks, and the best order in them, take longer than they are worth. */
const MANY = 40;
/** Names that are not numbers: objects whose keys are take a third longer. */
const named = (place: number): string => `n${place}`;

export class Layout {
  private readonly plans = new Map<string, Plan>();

  constructor(
    private readonly tree: Tree,
    private readonly measure: Measure,
  ) {}

  /** The whole graph, with these groups open. */
  plan(open: ReadonlySet<number>): Plan {
    return this.of(-1, open);
  }

  /** Lay out one open group before the whole is needed. */
  prepare(group: number, open: ReadonlySet<number>): void {
    this.of(group, open);
  }

  /** A plan depends on the open groups within it alone, and is kept. */
  private of(group: number, open: ReadonlySet<number>): Plan {
    const { items, edges } = this.tree.inside(group);
    const insides = items.map((item) =>
      item.group >= 0 && open.has(item.group) ? this.of(item.group, open) : null,
    );
    const key = `${group}:${items.flatMap((item) => (open.has(item.group) ? [this.key(item.group, open)] : [])).join()}`;
    const known = this.plans.get(key);
    if (known !== undefined) return known;
    const sizes = items.map((item, place) => {
      const inside = insides[place];
      if (!inside) return this.measure(item);
      return {
        width: Math.max(inside.width + 2 * PADDING, this.measure(item).width),
        height: inside.height + TITLE + PADDING,
      };
    });
    const made = arranged(items, sizes, insides, edges);
    this.plans.set(key, made);
    return made;
  }

  private key(group: number, open: ReadonlySet<number>): string {
    const inner = this.tree
      .inside(group)
      .items.filter((item) => item.group >= 0 && open.has(item.group));
    return `${group}(${inner.map((item) => this.key(item.group, open)).join()})`;
  }
}

function arranged(
  items: readonly Item[],
  sizes: readonly { width: number; height: number }[],
  insides: readonly (Plan | null)[],
  edges: readonly { from: number; to: number; bytes: number }[],
): Plan {
  const graph = new Graph();
  graph.setGraph({
    rankdir: "TB",
    nodesep: 14,
    ranksep: 26,
    edgesep: 8,
    marginx: 0,
    marginy: 0,
    ranker: items.length > MANY ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  items.forEach((_, place) => graph.setNode(named(place), { ...sizes[place]! }));
  for (const { from, to } of edges) graph.setEdge(named(from), named(to), {});
  layout(graph, { disableOptimalOrderHeuristic: items.length > MANY });
  const boxes = items.map((item, place) => {
    const { x, y, width, height } = graph.node(named(place)) as Point & {
      width: number;
      height: number;
    };
    return { item, x: x - width / 2, y: y - height / 2, width, height, inside: insides[place]! };
  });
  const lines = edges.map(({ from, to, bytes }) => {
    const { points } = graph.edge(named(from), named(to)) as { points: Point[] };
    return { from, to, bytes, points };
  });
  const ends = [
    ...boxes.map((box) => ({ x: box.x + box.width, y: box.y + box.height })),
    ...lines.flatMap(({ points }) => points),
  ];
  return {
    width: Math.max(0, ...ends.map(({ x }) => x)),
    height: Math.max(0, ...ends.map(({ y }) => y)),
    boxes,
    lines,
  };
}
