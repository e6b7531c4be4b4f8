// A row of tiles: the answers of a view, side by side.
import type { Link, Tile } from "../data";
import { element } from "../dom";
import { marked, toneClass } from "./tone";

/** What a click on a tile does: the link to its view, null where that view is not there; and the insertion of its cell. */
export interface Ways {
  link(to: Link): HTMLElement | null;
  insert(cell: string): void;
}

export function tileRow(tiles: readonly Tile[], ways: Ways): HTMLElement {
  return element("div", { class: "kl-tiles" }, ...tiles.map((tile) => drawn(tile, ways)));
}

function drawn({ name, value, detail, tone, share, link, cell }: Tile, ways: Ways): HTMLElement {
  const width = `width:${(100 * Math.min(Math.max(share ?? 0, 0), 1)).toFixed(0)}%`;
  const to = link === null ? null : ways.link(link);
  const parts = [
    element("div", { class: "kl-tile-name" }, name, ...(to === null ? [] : [to])),
    element("div", { class: "kl-tile-value" }, marked(value, tone)),
    ...(share === null
      ? []
      : [element("div", { class: "kl-tile-bar" }, element("i", { style: width }))]),
    element("div", { class: "kl-soft" }, detail),
  ];
  const style = `kl-tile${toneClass(tone)}`;
  if (cell === "") return element("div", { class: style }, ...parts);
  const title = `Insert ${cell} below, and run it`;
  const onclick = (): void => ways.insert(cell);
  return element(
    "button",
    { type: "button", class: `${style} kl-tile-button`, title, onclick },
    ...parts,
  );
}
