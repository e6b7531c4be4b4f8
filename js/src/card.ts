// A card whose rows lead to other views of its launch.
import type { CardData, Link } from "./data";
import { element } from "./dom";
import { swatch } from "./parts/bar";
import { cardTable, worded } from "./parts/table";
import type { Beside, Seen } from "./tabs";

export class CardView implements Seen {
  constructor(
    dom: HTMLElement,
    data: CardData,
    private readonly beside: Beside,
  ) {
    dom.append(
      element(
        "div",
        { class: "kl-head" },
        element("b", {}, data.title),
        element("span", { class: "kl-soft" }, data.subtitle),
      ),
      ...data.notes.map((note) => element("div", { class: "kl-card-note" }, ...worded(note))),
      element(
        "div",
        { class: "kl-card-tables" },
        ...data.tables.map((table) => cardTable(table, (link) => this.way(link))),
      ),
      footnotes(
        data.footnotes,
        data.legend.map(([kind, words]) => swatch(kind, words)),
      ),
    );
  }

  destroy(): void {}

  private way({ words, title, tab_id, at }: Link): HTMLElement | null {
    if (!this.beside.has(tab_id)) return null;
    return element(
      "button",
      { type: "button", class: "kl-way", title, onclick: () => this.beside.open(tab_id, at) },
      words,
    );
  }
}

/** How the numbers of a view were found: below them, in small letters. */
export function footnotes(
  notes: readonly string[],
  legend: readonly HTMLElement[] = [],
): HTMLElement {
  return element(
    "footer",
    { class: "kl-method kl-soft", hidden: notes.length + legend.length === 0 },
    ...(legend.length > 0 ? [element("div", { class: "kl-totals" }, ...legend)] : []),
    ...notes.map((note) => element("div", {}, ...worded(note))),
  );
}
