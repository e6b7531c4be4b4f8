// A card whose rows lead to other views of its launch.
import type { CardData, Link, TableData } from "./data";
import { element } from "./dom";
import type { Beside, Seen } from "./tabs";

/** A text in which what is between backticks is code. */
const worded = (text: string): (Node | string)[] =>
  text.split(/`([^`\n]+)`/).map((part, at) => (at % 2 === 0 ? part : element("code", {}, part)));

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
      element("div", { class: "kl-card-tables" }, ...data.tables.map((table) => this.table(table))),
    );
  }

  destroy(): void {}

  private table(data: TableData): HTMLElement {
    const links = data.links.filter((link) => this.beside.has(link.tab_id));
    const of = (row: number): Link[] => links.filter((link) => link.row === row);
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
    const title = element(
      "div",
      { class: "kl-card-title" },
      data.title,
      ...of(-1).map((link) => this.way(link)),
    );
    return element(
      "div",
      { class: data.is_wide ? "kl-card-wide" : "kl-card-table" },
      ...(title.childNodes.length > 0 ? [title] : []),
      element(
        "table",
        {},
        ...(hasHead ? [element("thead", {}, head)] : []),
        element("tbody", {}, ...rows),
      ),
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
    ];
    return element(
      "td",
      { class: style.join(" ") || undefined },
      ...(own === undefined ? worded(words) : [this.way(own)]),
      ...others.flatMap((link) => [" ", this.way(link)]),
    );
  }

  private way({ words, title, tab_id, at }: Link): HTMLElement {
    return element(
      "button",
      { type: "button", class: "kl-way", title, onclick: () => this.beside.open(tab_id, at) },
      words,
    );
  }
}
