// A row of tiles: the answers of a view, side by side.
import type { Link, Tile } from "../data";
import { element } from "../dom";
import { marked, toneClass } from "./tone";

/** The tiles; `way` makes the link of one that leads to another view, or null where that view is not there. */
export function tileRow(
  tiles: readonly Tile[],
  way: (link: Link) => HTMLElement | null,
): HTMLElement {
  return element("div", { class: "kl-tiles" }, ...tiles.map((tile) => drawn(tile, way)));
}

function drawn(
  { name, value, detail, tone, share, link }: Tile,
  way: (link: Link) => HTMLElement | null,
): HTMLElement {
  const width = `width:${(100 * Math.min(Math.max(share ?? 0, 0), 1)).toFixed(0)}%`;
  const to = link === null ? null : way(link);
  return element(
    "div",
    { class: `kl-tile${toneClass(tone)}` },
    element("div", { class: "kl-tile-name" }, name, ...(to === null ? [] : [to])),
    element("div", { class: "kl-tile-value" }, marked(value, tone)),
    ...(share === null
      ? []
      : [element("div", { class: "kl-tile-bar" }, element("i", { style: width }))]),
    element("div", { class: "kl-soft" }, detail),
  );
}
