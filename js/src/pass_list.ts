// The list of passes: marks, seconds, changed operations, a filter and a search.
import { element } from "./dom";
import type { IrView, PassData } from "./data";
import type { Side } from "./side";

export type Mark = PassData["effect"] | "left" | "right";

/** One pass of one compilation, or a pair of two. */
export interface Row {
  label: string;
  stage: string;
  name: string;
  left: number | null;
  right: number | null;
  mark: Mark;
  pass: PassData;
}

/** The rows of a view, in order. */
export function rowsOf(view: IrView): Row[] {
  const [first, second] = view.sides;
  if (first === undefined) return [];
  if (second === undefined || view.pairs.length === 0) {
    return first.passes.map((pass, number) => ({
      label: pass.label,
      stage: pass.stage,
      name: pass.name,
      left: number,
      right: null,
      mark: pass.effect,
      pass,
    }));
  }
  return view.pairs.map((pair) => {
    const pass = pair.left === null ? second.passes[pair.right!]! : first.passes[pair.left]!;
    const mark =
      pair.left === null
        ? "right"
        : pair.right === null
          ? "left"
          : pair.equal
            ? "unchanged"
            : "changed";
    return {
      label: pair.label,
      stage: pass.stage,
      name: pass.name,
      left: pair.left,
      right: pair.right,
      mark,
      pass,
    };
  });
}

const SIGNS: Record<Mark, string> = {
  changed: "●",
  locations: "◐",
  unchanged: "○",
  failed: "✖",
  left: "◀",
  right: "▶",
};

/** Words for a mark; those of a comparison are other ones. */
function wordsOf(mark: Mark, names: readonly string[]): string {
  const compared = names.length === 2;
  switch (mark) {
    case "changed":
      return compared ? "the modules differ after it" : "changed the module";
    case "locations":
      return "changed locations only";
    case "unchanged":
      return compared ? "the modules are the same after it" : "changed nothing";
    case "failed":
      return "failed: the text is the one before it";
    case "left":
      return `ran for ${names[0]} alone`;
    case "right":
      return `ran for ${names[1]} alone`;
  }
}

/** How much the two sides of a pair do differently in one pass: by how many operations what they add and remove differs. */
export function difference(row: Row, sides: readonly Side[]): number {
  const [left, right] = [sides[0]!.pass(row.left ?? -1), sides[1]!.pass(row.right ?? -1)];
  const names = new Set([
    ...Object.keys(left?.op_changes ?? {}),
    ...Object.keys(right?.op_changes ?? {}),
  ]);
  let sum = 0;
  for (const name of names)
    sum += Math.abs((left?.op_changes[name] ?? 0) - (right?.op_changes[name] ?? 0));
  return sum;
}

/** How much an operation count changed: "+12 −3", the sums of what came and what went. */
export function changeWords(pass: PassData): string {
  let came = 0;
  let went = 0;
  for (const change of Object.values(pass.op_changes)) {
    if (change > 0) came += change;
    else went -= change;
  }
  return [
    came > 0 ? `+${came.toLocaleString("en")}` : "",
    went > 0 ? `−${went.toLocaleString("en")}` : "",
  ]
    .filter((word) => word !== "")
    .join(" ");
}

export function milliseconds(seconds: number): string {
  const ms = seconds * 1000;
  return ms >= 100 ? ms.toFixed(0) : ms >= 1 ? ms.toFixed(1) : ms.toFixed(2);
}

let lists = 0;

export class PassList {
  readonly dom: HTMLElement;
  selected = 0;
  private readonly list: HTMLElement;
  private readonly items: HTMLElement[] = [];
  private readonly headings = new Map<string, HTMLElement>();
  private readonly count: HTMLElement;
  private readonly search: HTMLInputElement;
  private readonly changedOnly: HTMLInputElement;
  private readonly id = `kl-passes-${++lists}`;

  constructor(
    readonly rows: readonly Row[],
    private readonly names: readonly string[],
    private readonly onSelect: (row: number) => void,
  ) {
    const compared = names.length === 2;
    this.search = element("input", {
      type: "search",
      class: "kl-input",
      placeholder: "Search passes",
      "aria-label": "Search passes and operations",
      oninput: () => this.filter(),
    });
    this.changedOnly = element("input", { type: "checkbox", onchange: () => this.filter() });
    this.count = element("span", { class: "kl-count", role: "status" });
    this.list = element("ul", {
      class: "kl-passes",
      role: "listbox",
      tabindex: "0",
      "aria-label": "Passes",
      onkeydown: (event) => this.key(event as KeyboardEvent),
    });
    let stage: string | null = null;
    rows.forEach((row, number) => {
      if (row.stage !== stage) {
        const heading = element("li", { class: "kl-stage", role: "presentation" }, row.stage);
        this.headings.set(row.stage, heading);
        this.list.append(heading);
        stage = row.stage;
      }
      const item = this.item(row, number);
      this.items.push(item);
      this.list.append(item);
    });
    const words = compared ? "differing only" : "changed only";
    this.dom = element(
      "div",
      { class: "kl-list" },
      element(
        "div",
        { class: "kl-filter" },
        this.search,
        element("label", {}, this.changedOnly, words),
        this.count,
      ),
      this.list,
    );
    this.filter();
  }

  /** Choose a row; `step` callers skip what the filter hides. */
  select(row: number, notify = true): void {
    const item = this.items[row];
    if (item === undefined) return;
    this.items[this.selected]?.setAttribute("aria-selected", "false");
    this.selected = row;
    item.setAttribute("aria-selected", "true");
    this.list.setAttribute("aria-activedescendant", item.id);
    this.scrollTo(item);
    if (notify) this.onSelect(row);
  }

  /** Bring the selected row into sight: before the list was drawn it could not be. */
  reveal(): void {
    const item = this.items[this.selected];
    if (item !== undefined) this.scrollTo(item);
  }

  /** The next row in a direction that is shown, or that did something; none where the list ends. */
  step(by: 1 | -1, changedOnly = false): void {
    for (let row = this.selected + by; row >= 0 && row < this.rows.length; row += by) {
      const mark = this.rows[row]!.mark;
      const fits = changedOnly
        ? mark !== "unchanged" && mark !== "locations"
        : !this.items[row]!.hidden;
      if (fits) {
        this.select(row);
        return;
      }
    }
  }

  private item(row: Row, number: number): HTMLElement {
    const words = wordsOf(row.mark, this.names);
    const changes = changeWords(row.pass);
    const occurrence = row.label.split("#")[1];
    return element(
      "li",
      {
        class: `kl-pass kl-${row.mark}`,
        role: "option",
        id: `${this.id}-${number}`,
        "aria-selected": "false",
        title: `${row.label}: ${words}${row.pass.arguments ? `; arguments: ${row.pass.arguments}` : ""}`,
        onclick: () => this.select(number),
      },
      element("span", { class: "kl-mark", "aria-hidden": "true" }, SIGNS[row.mark]),
      element(
        "span",
        { class: "kl-pass-name" },
        row.name,
        ...(occurrence ? [element("span", { class: "kl-soft" }, ` #${occurrence}`)] : []),
      ),
      element("span", { class: "kl-hidden" }, `, ${words}`),
      element("span", { class: "kl-ops" }, changes),
      element(
        "span",
        { class: "kl-ms", "aria-label": `${milliseconds(row.pass.seconds)} milliseconds` },
        row.mark === "failed" ? "" : `${milliseconds(row.pass.seconds)} ms`,
      ),
    );
  }

  /** Scroll the list, and nothing around it, so that a row and those beside it are in view, and no row is cut by the heading at the top. */
  private scrollTo(row: HTMLElement): void {
    // The list is its rows' offset parent.
    const { list } = this;
    const height = row.offsetHeight;
    const cover = this.headings.get(this.rows[this.selected]!.stage)!.offsetHeight;
    const below = row === list.lastElementChild ? 0 : height;
    if (row.offsetTop - height < list.scrollTop + cover)
      list.scrollTop = row.offsetTop - height - cover;
    else if (row.offsetTop + height + below > list.scrollTop + list.clientHeight)
      list.scrollTop = row.offsetTop + height + below - list.clientHeight;
    else return;
    const first = this.items.find(
      (item) => item.offsetTop >= list.scrollTop + cover && !item.hidden,
    );
    if (first !== undefined && list.scrollTop > 0) list.scrollTop = first.offsetTop - cover;
  }

  private filter(): void {
    const wanted = this.search.value.trim().toLowerCase();
    const shownStages = new Set<string>();
    let shown = 0;
    this.rows.forEach((row, number) => {
      const words = `${row.label} ${Object.keys(row.pass.op_changes).join(" ")}`.toLowerCase();
      const quiet = row.mark === "unchanged" || row.mark === "locations";
      const hidden = (this.changedOnly.checked && quiet) || !words.includes(wanted);
      this.items[number]!.hidden = hidden;
      if (!hidden) {
        shown++;
        shownStages.add(row.stage);
      }
    });
    for (const [stage, heading] of this.headings) heading.hidden = !shownStages.has(stage);
    const all = this.rows.length === 1 ? "1 pass" : `${this.rows.length} passes`;
    this.count.textContent = shown === this.rows.length ? all : `${shown} of ${all}`;
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "ArrowDown") this.step(1);
    else if (event.key === "ArrowUp") this.step(-1);
    else if (event.key === "Home") this.select(this.items.findIndex((item) => !item.hidden));
    else if (event.key === "End") this.select(this.items.findLastIndex((item) => !item.hidden));
    else return;
    event.preventDefault();
  }
}
