// A card whose rows lead to other views of its launch.
import type { CardData, Link, TableData } from "./data";
import { element } from "./dom";
import type { Beside, Seen } from "./rooms";

export class CardView implements Seen {
  constructor(dom: HTMLElement, data: CardData, private readonly beside: Beside) {
    dom.append(
      element("div", { class: "kl-head" }, element("b", {}, data.title), element("span", { class: "kl-soft" }, data.subtitle)),
      ...data.notes.map((note) => element("div", { class: "kl-card-note" }, note)),
      element("div", { class: "kl-card-tables" }, ...data.tables.map((table) => this.table(table))),
    );
  }

  destroy(): void {}

  private table(data: TableData): HTMLElement {
    const links = data.links.filter((link) => this.beside.has(link.room));
    const of = (row: number): Link[] => links.filter((link) => link.row === row);
    const hasHead = data.columns.some((name) => name !== "");
    const head = element("tr", {}, ...data.columns.map((name, at) => element("th", { class: data.numbers.includes(at) ? "kl-right-cell" : undefined, scope: "col" }, name)));
    const rows = data.rows.map((cells, row) => element("tr", {}, ...cells.map((words, at) => this.cell(data, at, words, of(row))), ...this.besideRow(cells, of(row))));
    const title = element("div", { class: "kl-card-title" }, data.title, ...of(-1).map((link) => this.way(link)));
    const isWide = data.is_listing || data.columns.length > 4 || (hasHead && data.rows.some(([name]) => name!.length > 40));
    return element("div", { class: isWide ? "kl-card-wide" : "kl-card-table" }, ...(title.childNodes.length > 0 ? [title] : []),
      element("table", {}, ...(hasHead ? [element("thead", {}, head)] : []), element("tbody", {}, ...rows)));
  }

  /** A cell; the first one is the way itself where it has the way's name. */
  private cell(data: TableData, at: number, words: string, links: readonly Link[]): HTMLElement {
    const own = at === 0 ? links.find((link) => link.words === words) : undefined;
    const isCode = at === 0 && data.columns.some((name) => name !== "");
    const style = data.numbers.includes(at) ? "kl-right-cell" : isCode ? "kl-code-cell" : undefined;
    return element("td", { class: style }, own === undefined ? words : this.way(own));
  }

  private besideRow(cells: readonly string[], links: readonly Link[]): HTMLElement[] {
    const others = links.filter((link) => link.words !== cells[0]);
    return others.length > 0 ? [element("td", {}, ...others.map((link) => this.way(link)))] : [];
  }

  private way({ words, title, room, at }: Link): HTMLElement {
    return element("button", { type: "button", class: "kl-way", title, onclick: () => this.beside.open(room, at) }, words);
  }
}
