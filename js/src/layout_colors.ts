// What the cells of a layout's picture are colored by, and which color is which number.
import { element } from "./dom";
import type { TileLayout } from "./layout_math";
import { BLIND_SAFE, sequential } from "./palette";

/** The most colors of a scale without steps that can be seen. */
const MOST_SHADES = 256;

/** What a tile of any memory can be colored by. */
const ROW_OF_TILE = "row of the tile";
const BANKS = 32;

/** The numbers of one layout that its cells are colored by. */
export interface Scale {
  by: string;
  /** One more than the highest number. */
  most: number;
  color(number: number): string;
}

/** What a layout has by itself. */
function ownColorings(layout: TileLayout): string[] {
  if (layout.data.memory === "registers") return ["warp", "lane", "register", "block"];
  if (layout.data.memory === "tensor memory") return ["row", "column"];
  return ["bank", "offset", ROW_OF_TILE];
}

/** What one layout, or two side by side, can be colored by; "warp | bank" where they are of different memories. */
export function colorings(layouts: readonly TileLayout[]): string[] {
  const [first, second] = layouts;
  if (first === undefined) return [];
  const own = ownColorings(first);
  if (second === undefined || second.data.memory === first.data.memory) return own;
  const other = ownColorings(second);
  const pairs = own.flatMap((left) =>
    other.map((right) => (left === right ? left : `${left} | ${right}`)),
  );
  return [...new Set([...pairs, ROW_OF_TILE])];
}

/** The coloring to begin with: the one that was chosen, else of threads the first kind that there are several of, warps or lanes. */
export function firstColoring(layouts: readonly TileLayout[], wanted: string): string {
  const offered = colorings(layouts);
  const chosen = offered.find((one) => wanted !== "" && one.split(" | ").includes(wanted));
  const several = offered.find((one) =>
    one.split(" | ").every((by, side) => {
      const layout = layouts[side]!;
      return layout.data.memory !== "registers" || layout.size(by) > 1;
    }),
  );
  return chosen ?? several ?? offered[0] ?? "";
}

/** The scale of one of the layouts under a coloring; `columns` is how many elements a row of the tile has. */
export function scaleOf(
  layout: TileLayout,
  side: number,
  coloring: string,
  columns: number,
): Scale {
  const names = coloring.split(" | ");
  const by = names[side] ?? names[0]!;
  const { most, value } = numbersOf(layout, by, columns);
  const shades = Math.min(most, MOST_SHADES);
  const colors =
    most <= BLIND_SAFE.length
      ? BLIND_SAFE
      : Array.from({ length: shades }, (_, at) => sequential(at / (shades - 1)));
  return {
    by,
    most,
    color: (number) =>
      colors[
        most <= colors.length ? value(number) : Math.floor((value(number) * colors.length) / most)
      ]!,
  };
}

function numbersOf(
  layout: TileLayout,
  by: string,
  columns: number,
): { most: number; value: (number: number) => number } {
  if (by === "bank") return { most: BANKS, value: (number) => layout.bank(number) };
  if (by === "offset")
    return {
      most: layout.offset(layout.size("offset") - 1) + 1,
      value: (number) => layout.offset(number),
    };
  if (by === ROW_OF_TILE)
    return {
      most: Math.ceil(layout.elementCount / columns),
      value: (number) => Math.floor(layout.elements[number]! / columns),
    };
  return { most: layout.size(by), value: (number) => layout.part(number, by) };
}

/** An entry of a legend: a color, and what it represents. */
export function legendEntry(color: string, words: string): HTMLElement {
  return element("span", {}, element("i", { style: `background: ${color}` }), words);
}

/** The legend of scales side by side; what is the same for all is said once. */
export function scaleLegend(
  layouts: readonly TileLayout[],
  scales: readonly Scale[],
): HTMLElement[] {
  const same = scales.every(({ by, most }) => by === scales[0]!.by && most === scales[0]!.most);
  const isAmbiguous = !same && scales.every(({ by }) => by === scales[0]!.by);
  const legends = scales.map((scale, side) => [
    ...copiesWords(layouts[side]!, scale),
    ...entriesOf(scale, isAmbiguous ? `${side === 0 ? "left" : "right"}: ` : ""),
  ]);
  const seen = new Set<string>();
  return legends.flat().filter(({ outerHTML }) => !seen.has(outerHTML) && seen.add(outerHTML));
}

function copiesWords(layout: TileLayout, { by }: Scale): HTMLElement[] {
  if (layout.replication === 1 || layout.data.memory !== "registers" || by === ROW_OF_TILE)
    return [];
  return [
    element(
      "span",
      {},
      `each element is held ${layout.replication} times: its cell has the colors of all its ${by}s`,
    ),
  ];
}

function entriesOf({ by, most }: Scale, side: string): HTMLElement[] {
  if (most <= BLIND_SAFE.length)
    return Array.from({ length: most }, (_, at) =>
      legendEntry(BLIND_SAFE[at]!, `${side}${by} ${at}`),
    );
  const gradient = `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(sequential).join(", ")}); width: 120px`;
  return [legendEntry(gradient, `${side}${by} 0 to ${most - 1}`)];
}
