// A card whose rows lead to other views of its launch.
import type { CardData, Link, Strip, TableData, Tile } from "./data";
import { button, element } from "./dom";
import type { KernelRequest } from "./kernel";
import { applyEdits, insertBelow, isInNotebook } from "./notebook";
import { band } from "./parts/band";
import { tileRow } from "./parts/tile";
import { marked, toneClass } from "./parts/tone";
import type { Beside, Seen } from "./tabs";

/** A text in which what is between backticks is code. */
const worded = (text: string): (Node | string)[] =>
  text.split(/`([^`\n]+)`/).map((part, at) => (at % 2 === 0 ? part : element("code", {}, part)));

export class CardView implements Seen {
  private readonly content = element("div", { class: "kl-card-content" });
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
        const { content } = await this.request("complete", { part });
        if (this.isGone) return;
        this.draw(content["card"] as CardData);
      } catch {
        waiting.remove();
        return; // the kernel is busy or gone: the card says what is known
      }
    }
  }

  private draw(data: CardData): void {
    const open = [...this.content.querySelectorAll("details[open] > summary")].map(
      (summary) => summary.textContent,
    );
    this.content.replaceChildren(
      band(data.title, data.subtitle, data.tone),
      ...(data.tiles.length === 0 ? [] : [this.tiles(data.tiles)]),
      ...(data.lead === "" ? [] : [this.lead(data)]),
      ...data.notes.map((note) => element("div", { class: "kl-card-note" }, ...worded(note))),
      element("div", { class: "kl-card-tables" }, ...data.tables.map((table) => this.table(table))),
    );
    for (const fold of this.content.querySelectorAll("details"))
      fold.open = open.includes(fold.querySelector("summary")!.textContent);
  }

  private tiles(tiles: readonly Tile[]): HTMLElement {
    return tileRow(tiles, {
      link: (to) => this.wayTo(to),
      insert: (cell) => {
        if (this.request !== null && isInNotebook(this.content))
          void insertBelow(this.content, cell);
        else void navigator.clipboard.writeText(cell);
      },
    });
  }

  private lead({ lead, lead_links }: CardData): HTMLElement {
    const ways = lead_links.flatMap((link) => this.wayTo(link) ?? []);
    return element(
      "div",
      { class: "kl-card-note kl-card-lead" },
      ...worded(lead),
      ...ways.flatMap((way) => [" ", way]),
    );
  }

  private table(data: TableData): HTMLElement {
    const links = data.links.filter((link) => this.beside.has(link.tab_id));
    const of = (row: number): Link[] => links.filter((link) => link.row === row);
    const ways = of(-1).map((link) => this.way(link));
    const title = element("div", { class: "kl-card-title" }, data.title, ...ways);
    const table = data.tiles.length > 0 ? this.tiles(data.tiles) : this.rows(data, of);
    const box = {
      class: `${data.is_wide ? "kl-card-wide" : "kl-card-table"}${data.tone === "" ? "" : " kl-striped"}${toneClass(data.tone)}`,
    };
    if (data.is_folded)
      return element(
        "div",
        box,
        element("details", {}, element("summary", {}, data.title), ...ways, table),
      );
    return element(
      "div",
      box,
      ...(title.childNodes.length > 0 ? [title] : []),
      ...(data.strip === null ? [] : [strip(data.strip)]),
      table,
      ...this.apply(data),
    );
  }

  private rows(data: TableData, of: (row: number) => Link[]): HTMLElement {
    const hasHead = data.columns.some((name) => name !== "");
    const head = element(
      "tr",
      {},
      ...data.columns.map((name, at) =>
        element(
          "th",
          { class: data.numbers.includes(at) ? "kl-right-cell" : undefined, scope: "col" },
          name,
        ),
      ),
    );
    const rows = data.rows.map((cells, row) =>
      element("tr", {}, ...cells.map((words, at) => this.cell(data, row, at, words, of(row)))),
    );
    return element(
      "table",
      {},
      ...(hasHead ? [element("thead", {}, head)] : []),
      element("tbody", {}, ...rows),
    );
  }

  /** A cell. The first one has the row's links; it is a link itself where it has the link's name. */
  private cell(
    data: TableData,
    row: number,
    at: number,
    words: string,
    links: readonly Link[],
  ): HTMLElement {
    const own = at === 0 ? links.find((link) => link.words === words) : undefined;
    const others = at === 0 ? links.filter((link) => link !== own) : [];
    const hasHead = data.columns.some((name) => name !== "");
    const isCode = at > 0 && data.code.includes(hasHead ? at : row);
    const style = [
      ...(data.numbers.includes(at) ? ["kl-right-cell"] : []),
      ...(isCode ? [hasHead ? "kl-code-line" : "kl-code-fact"] : []),
      ...(at === 0 ? [hasHead ? "kl-code-cell" : "kl-label-cell"] : []),
      ...(isCode && data.edits.length > 0 ? difference(words) : []),
    ];
    return element(
      "td",
      { class: style.join(" ") || undefined },
      ...(own === undefined ? worded(words) : [this.way(own)]),
      ...others.flatMap((link) => [" ", this.way(link)]),
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

  private wayTo(link: Link): HTMLElement | null {
    return this.beside.has(link.tab_id) ? this.way(link) : null;
  }

  private way({ words, title, tab_id, at }: Link): HTMLElement {
    return element(
      "button",
      { type: "button", class: "kl-way", title, onclick: () => this.beside.open(tab_id, at) },
      words,
    );
  }
}

/** The class of a line of a change. */
function difference(words: string): string[] {
  return words.startsWith("- ") ? ["kl-gone"] : words.startsWith("+ ") ? ["kl-came"] : [];
}

/** Elements in a row, those at fault in red. */
function strip({ title, cells }: Strip): HTMLElement {
  return element(
    "div",
    { class: "kl-strip", role: "img", "aria-label": cells.map((one) => one.words).join(" ") },
    ...(title === "" ? [] : [element("code", {}, title)]),
    ...cells.map(({ words, tone }) =>
      element("span", { class: `kl-strip-cell${toneClass(tone)}` }, marked(words, tone)),
    ),
  );
}
