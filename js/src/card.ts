// A card whose rows lead to other views of its launch.
import type { CardData, Link, TableData } from "./data";
import { button, element } from "./dom";
import type { KernelRequest } from "./kernel";
import { applyEdits, insertBelow, isInNotebook } from "./notebook";
import { band } from "./parts/band";
import { swatch } from "./parts/bar";
import { cardTable, type TableWays, worded } from "./parts/table";
import { tileRow } from "./parts/tile";
import { copy } from "./parts/toolbar";
import type { Beside, Seen } from "./tabs";

/** Milliseconds. A kernel that runs all cells of a notebook answers after the last of them. */
const A_DAY = 86_400_000;

export class CardView implements Seen {
  private readonly content = element("div", { class: "kl-card-content" });
  private readonly ways: TableWays = {
    link: (to) => this.way(to),
    insert: (cell) => {
      if (this.request !== null && isInNotebook(this.content)) void insertBelow(this.content, cell);
      else void copy(cell);
    },
    apply: (data) => this.apply(data),
  };
  private isGone = false;

  constructor(
    dom: HTMLElement,
    data: CardData,
    private readonly request: KernelRequest | null,
    private readonly beside: Beside,
  ) {
    dom.append(this.content);
    this.draw(data);
    void this.complete(data.later);
  }

  destroy(): void {
    this.isGone = true;
  }

  /** Request what takes a while, one part after the other: cells that were run meanwhile come first. */
  private async complete(parts: readonly string[]): Promise<void> {
    if (this.request === null) return;
    for (const part of parts) {
      const words = `The notebook's kernel makes the ${part} of this launch …`;
      const waiting = element("div", { class: "kl-card-note kl-soft", role: "status" }, words);
      this.content.append(waiting);
      try {
        const { content } = await this.request("complete", { part }, undefined, A_DAY);
        if (this.isGone) return;
        this.draw(content["card"] as CardData);
      } catch {
        waiting.remove();
        return; // the kernel is gone: the card says what is known
      }
    }
  }

  private draw(data: CardData): void {
    const open = [...this.content.querySelectorAll("details[open] > summary")].map(
      (summary) => summary.textContent,
    );
    this.content.replaceChildren(
      band(data.title, data.subtitle, data.tone),
      ...(data.tiles.length === 0 ? [] : [tileRow(data.tiles, this.ways)]),
      ...(data.lead === "" ? [] : [this.lead(data)]),
      ...data.notes.map((note) => element("div", { class: "kl-card-note" }, ...worded(note))),
      element(
        "div",
        { class: "kl-card-tables" },
        ...data.tables.map((table) => cardTable(table, this.ways)),
      ),
      footnotes(
        data.footnotes,
        data.legend.map(([kind, words]) => swatch(kind, words)),
      ),
    );
    for (const fold of this.content.querySelectorAll("details"))
      fold.open = open.includes(fold.querySelector("summary")!.textContent);
  }

  private lead({ lead, lead_links }: CardData): HTMLElement {
    const ways = lead_links.flatMap((link) => this.way(link) ?? []);
    return element(
      "div",
      { class: "kl-card-note kl-card-lead" },
      ...worded(lead),
      ...ways.flatMap((way) => [" ", way]),
    );
  }

  /** The button that writes a change into its cell. */
  private apply({ edits, rows }: TableData): HTMLElement[] {
    if (edits.length === 0 || this.request === null || !isInNotebook(this.content)) return [];
    const source = rows.find(([label]) => label === "line")?.[1] ?? "";
    const made = button(
      "Apply and check again",
      "Write this change into the kernel's cell, and run it again",
      () => {
        if (applyEdits(this.content, edits, source)) return;
        made.replaceWith(
          element(
            "span",
            { class: "kl-soft", role: "status" },
            "The kernel's cell has changed, or is out of sight: change the line there.",
          ),
        );
      },
    );
    return [made];
  }

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
