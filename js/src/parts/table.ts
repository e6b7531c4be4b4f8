// A table of a card: cells of words, of code, of numbers and of bars, and rows that lead elsewhere.
import type { Link, Strip, TableData } from "../data";
import { element, scrolledByKeys } from "../dom";
import { bar } from "./bar";
import { tileRow, type Ways } from "./tile";
import { marked, toneClass } from "./tone";

/** Columns of a row that a narrow cell has space for. */
const MOST_BESIDE = 4;

/** A text in which what is between backticks is code. */
export const worded = (text: string): (Node | string)[] =>
  text.split(/`([^`\n]+)`/).map((part, at) => (at % 2 === 0 ? part : element("code", {}, part)));

/** Where a table leads, and what its buttons do. */
export interface TableWays extends Ways {
  /** What is below a table with a change: the button that makes it. */
  apply(data: TableData): readonly HTMLElement[];
}

const NOWHERE: TableWays = { link: () => null, insert: () => undefined, apply: () => [] };

/** A table with its title, its picture and what it leads to; one that is folded opens by a click on its title. */
export function cardTable(data: TableData, ways: TableWays = NOWHERE): HTMLElement {
  const of = (row: number): [Link, HTMLElement][] =>
    data.links.flatMap((link) => {
      const made = link.row === row ? ways.link(link) : null;
      return made === null ? [] : [[link, made]];
    });
  const own = of(-1).map(([, to]) => to);
  const heading = [...(data.title_bar.length > 0 ? [bar(data.title_bar)] : []), data.title];
  const content = [
    ...(data.strip === null ? [] : [strip(data.strip)]),
    data.tiles.length > 0 ? tileRow(data.tiles, ways) : rowsOf(data, of),
    ...ways.apply(data),
  ];
  const title = element("div", { class: "kl-card-title" }, ...heading, ...own);
  const isStriped = data.tone !== "";
  const box = element(
    "div",
    {
      class: `${data.is_wide ? "kl-card-wide" : "kl-card-table"}${isStriped ? " kl-striped" : ""}${toneClass(data.tone)}`,
    },
    ...(data.is_folded
      ? [element("details", {}, element("summary", {}, ...heading), ...own, ...content)]
      : [...(title.childNodes.length > 0 ? [title] : []), ...content]),
  );
  return data.is_wide ? scrolledByKeys(box) : box;
}

function rowsOf(data: TableData, of: (row: number) => readonly [Link, HTMLElement][]): HTMLElement {
  const hasHead = data.columns.some((name) => name !== "");
  const last = data.columns.length - 1;
  // A column of code has no space beside so many numbers: a line stands above the rows about it.
  const isCodeAbove = data.is_wide && hasHead && last > 1 && data.code.includes(last);
  const shown = isCodeAbove ? last : undefined;
  const isNumber = (at: number): string | undefined =>
    data.numbers.includes(at) ? "kl-right-cell" : undefined;
  const head = data.columns
    .slice(0, shown)
    .map((name, at) =>
      name === "" ? element("td", {}) : element("th", { class: isNumber(at), scope: "col" }, name),
    );
  const rows = data.rows.flatMap((cells, row) => {
    if (!hasHead && isCaret(data.rows, row)) return [];
    const line = isCodeAbove ? cells[last]! : "";
    const above = element("td", { class: "kl-code-line", colspan: String(last) }, line);
    const own = cells
      .slice(0, shown)
      .map((words, at) => cell(data, row, at, words, hasHead, of(row)));
    return [...(line === "" ? [] : [element("tr", {}, above)]), element("tr", {}, ...own)];
  });
  // In a narrow cell each row of so many columns is its name, and below it the other columns' names and values.
  const isLong = hasHead && head.length > MOST_BESIDE;
  return element(
    "table",
    { class: isLong ? "kl-rows" : undefined },
    ...(hasHead ? [element("thead", {}, element("tr", {}, ...head))] : []),
    element("tbody", {}, ...rows),
  );
}

/** Whether a row is the caret below a line of code. */
function isCaret(rows: TableData["rows"], row: number): boolean {
  return row > 0 && rows[row]?.[0] === "" && rows[row][1]?.trim() === "^";
}

/** A line of code in which what the caret below it points to is marked: the line may be wrapped. */
function pointedAt(words: string, at: number): (Node | string)[] {
  const name = /^[\w.]+|^./.exec(words.slice(at))?.[0] ?? "";
  const mark = element("mark", { class: "kl-caret" }, name);
  return [words.slice(0, at), mark, words.slice(at + name.length)];
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
  const name = at > 0 && words !== "" ? data.columns[at] : undefined;
  const own = at === 0 ? links.find(([link]) => link.words === words) : undefined;
  const others = at === 0 ? links.filter((one) => one !== own) : [];
  const isCode = at > 0 && data.code.includes(hasHead ? at : row);
  const style = [
    ...(data.numbers.includes(at) ? ["kl-right-cell"] : []),
    ...(isCode ? [hasHead ? "kl-code-line" : "kl-code-fact"] : []),
    ...(at === 0 ? [hasHead ? "kl-code-cell" : "kl-label-cell"] : []),
    ...(isCode && data.edits.length > 0 ? difference(words) : []),
  ];
  return element(
    "td",
    { class: style.join(" ") || undefined, "data-name": name || undefined },
    ...(own !== undefined
      ? [own[1]]
      : at === 1 && !hasHead && isCaret(data.rows, row + 1)
        ? pointedAt(words, data.rows[row + 1]![1]!.indexOf("^"))
        : worded(words)),
    ...others.flatMap(([, to]) => [" ", to]),
  );
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
