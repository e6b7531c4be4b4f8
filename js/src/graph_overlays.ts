// What is drawn over a graph: around the nodes of each kernel a hull, and between pairs that were not fused a line.
import type { FusionRow, GraphChain, GraphView } from "./data";
import type { Box, Point } from "./graph_layout";
import type { Links } from "./graph_links";

/** A kernel and the elements of the drawn level that it computes. */
export interface Hull {
  name: string;
  elements: readonly number[];
}

/** A pair that was not fused, by one element of each side. */
export interface Refusal {
  from: number;
  to: number;
  row: FusionRow;
}

export interface Overlays {
  hulls: readonly Hull[];
  refusals: readonly Refusal[];
}

/** A box with where it is in the whole graph. */
export interface Placed extends Point {
  box: Box;
}

/** With more kernels than this hulls only cover each other. */
const MOST_HULLS = 60;
/** Pairs that are drawn: those that would save most. */
const MOST_REFUSALS = 6;
/** Around the boxes of a hull, and half of the width of what joins them. */
const MARGIN = 7;

/** What belongs over a level: pairs over the loop IR, whose groups show what was fused; hulls over the levels above it. */
export function overlaysOf(
  data: GraphView,
  chain: GraphChain,
  level: number,
  links: Links,
): Overlays {
  const { name } = data.levels[level]!;
  if (name === "loops") return { hulls: [], refusals: refusalsOf(chain) };
  const launches = chain.levels.find((number) => data.levels[number]!.name === "launches");
  const names = launches === undefined ? [] : data.levels[launches]!.names;
  if (launches === undefined || level === launches || names.length > MOST_HULLS)
    return { hulls: [], refusals: [] };
  const hulls = names.map((kernel, one) => {
    const lit = links.lit(chain, { level: launches, elements: [one] }).get(level) ?? [];
    return { name: kernel, elements: lit };
  });
  return { hulls: hulls.filter(({ elements }) => elements.length > 1), refusals: [] };
}

function refusalsOf({ fusions }: GraphChain): Refusal[] {
  return fusions
    .filter(({ fused, saved_bytes, elements }) => !fused && saved_bytes > 0 && elements.length > 1)
    .slice(0, MOST_REFUSALS)
    .map((row) => {
      const cut = Math.min(row.first.split("_").length, row.elements.length - 1);
      return { from: row.elements[cut - 1]!, to: row.elements[cut]!, row };
    });
}

/** One shape around boxes: each with a margin, joined to the nearest of those before it. Nothing between them is covered. */
export function hullPath(boxes: readonly Placed[]): Path2D {
  const path = new Path2D();
  boxes.forEach(({ x, y, box }, at) => {
    const [width, height] = [box.width + 2 * MARGIN, box.height + 2 * MARGIN];
    path.roundRect(x - MARGIN, y - MARGIN, width, height, MARGIN + 3);
    if (at === 0) return;
    const here = middle(boxes[at]!);
    const near = boxes
      .slice(0, at)
      .map(middle)
      .reduce((best, one) => (distance(one, here) < distance(best, here) ? one : best));
    join(path, near, here);
  });
  return path;
}

/** The middle of a box's right side in the whole graph. */
export function rightOf({ x, y, box }: Placed): Point {
  return { x: x + box.width, y: y + box.height / 2 };
}

function middle({ x, y, box }: Placed): Point {
  return { x: x + box.width / 2, y: y + box.height / 2 };
}

function distance(one: Point, other: Point): number {
  return Math.hypot(one.x - other.x, one.y - other.y);
}

/** A bar from one place to another, its corners clockwise as those of the boxes: what overlaps is filled once. */
function join(path: Path2D, from: Point, to: Point): void {
  const length = Math.max(1, distance(from, to));
  const [x, y] = [(-(to.y - from.y) / length) * MARGIN, ((to.x - from.x) / length) * MARGIN];
  path.moveTo(from.x - x, from.y - y);
  path.lineTo(to.x - x, to.y - y);
  path.lineTo(to.x + x, to.y + y);
  path.lineTo(from.x + x, from.y + y);
  path.closePath();
}
