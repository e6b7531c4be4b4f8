// A table of a card: cells of words, of code, of numbers and of bars, and rows that lead elsewhere.
import type { Link, TableData } from "../data";
import { element } from "../dom";
import { bar } from "./bar";

/** A text in which what is between backticks is code. */
export const worded = (text: string): (Node | string)[] =>
  text.split(/`([^`\n]+)`/).map((part, at) => (at % 2 === 0 ? part : element("code", {}, part)));

/** A table with its title; `lead` makes the button of a link, null for one that leads nowhere. */
export function cardTable(
  data: TableData,
  lead: (link: Link) => HTMLElement | null = () => null,
): HTMLElement {
  const of = (row: number): [Link, HTMLElement][] =>
    data.links.flatMap((link) => {
      const made = link.row === row ? lead(link) : null;
      return made === null ? [] : [[link, made]];
    });
  const hasHead = data.columns.some((name) => name !== "");
  const isNumber = (at: number): string | undefined =>
    data.numbers.includes(at) ? "kl-right-cell" : undefined;
  const head = data.columns.map((name, at) =>
    name === "" ? element("td", {}) : element("th", { class: isNumber(at), scope: "col" }, name),
  );
  const rows = data.rows.map((cells, row) =>
    element("tr", {}, ...cells.map((words, at) => cell(data, row, at, words, hasHead, of(row)))),
  );
  const title = element(
    "div",
    { class: "kl-card-title" },
    ...(data.title_bar.length > 0 ? [bar(data.title_bar)] : []),
    data.title,
    ...of(-1).map(([, to]) => to),
  );
  return element(
    "div",
    { class: data.is_wide ? "kl-card-wide" : "kl-card-table" },
    ...(title.childNodes.length > 0 ? [title] : []),
    element(
      "table",
      {},
      ...(hasHead ? [element("thead", {}, element("tr", {}, ...head))] : []),
      element("tbody", {}, ...rows),
    ),
  );
}

/** A cell. The first one has the row's links; it is a link itself where it has the link's name. */
function cell(
  data: TableData,
  row: number,
  at: number,
  words: string,
  hasHead: boolean,
  links: readonly [Link, HTMLElement][],
): HTMLElement {
  const bars = data.bars[at];
  if (bars !== undefined) return element("td", { class: "kl-bar-cell" }, bar(bars[row] ?? []));
  const own = at === 0 ? links.find(([link]) => link.words === words) : undefined;
  const others = at === 0 ? links.filter((one) => one !== own) : [];
  const isCode = at > 0 && data.code.includes(hasHead ? at : row);
  const style = [
    ...(data.numbers.includes(at) ? ["kl-right-cell"] : []),
    ...(isCode ? [hasHead ? "kl-code-line" : "kl-code-fact"] : []),
    ...(at === 0 ? [hasHead ? "kl-code-cell" : "kl-label-cell"] : []),
  ];
  return element(
    "td",
    { class: style.join(" ") || undefined },
    ...(own === undefined ? worded(words) : [own[1]]),
    ...others.flatMap(([, to]) => [" ", to]),
  );
}
