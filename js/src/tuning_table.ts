// The table of a sweep's configs: sorted by any column, filtered, with the same selection as the plots.
import { element } from "./dom";
import { type Column, configWords, type Entry, STANDING, type TuningState } from "./tuning_state";

export interface TableEvents {
  click(place: number, adding: boolean): void;
  /** Whether a config's IR is here already. */
  isHere(place: number): boolean;
}

export class ConfigTable {
  readonly dom = element("div", { class: "kl-configs", tabindex: "-1" });
  private readonly count = element("div", { class: "kl-configs-head kl-soft", role: "status" });
  private readonly body = element("tbody");
  private readonly head = element("thead");
  private readonly rows = new Map<number, HTMLTableRowElement>();
  private order: number[] = [];
  private freezing = 0;

  constructor(
    private readonly state: TuningState,
    private readonly events: TableEvents,
  ) {
    const table = element(
      "table",
      { class: "kl-table", role: "grid", "aria-label": "Configs", "aria-multiselectable": "true" },
      this.head,
      this.body,
    );
    this.dom.append(this.count, element("div", { class: "kl-configs-rows" }, table));
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("pointerover", (event) => this.state.point(placeOf(event)));
    this.body.addEventListener("pointerleave", () => this.state.point(null));
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("focusin", (event) => this.state.point(placeOf(event)));
    state.onchange((what) => {
      if (what === "shown" || what === "sorted") this.draw();
      else this.relight();
    });
    this.draw();
  }

  draw(): void {
    const { state } = this;
    const columns = state.columns();
    const entries = state.shown;
    const all = state.all.length;
    this.count.textContent =
      entries.length === all
        ? `${all} config${all === 1 ? "" : "s"}`
        : `${entries.length} of ${all} configs`;
    this.head.replaceChildren(
      element(
        "tr",
        {},
        element("td", { class: "kl-mark-cell kl-frozen" }),
        ...columns.map((column, at) => this.heading(column, at + 1)),
      ),
    );
    this.rows.clear();
    this.order = entries.map((one) => one.place);
    this.body.replaceChildren(...entries.map((entry) => this.row(entry, columns)));
    const first = this.body.querySelector("tr");
    if (first) first.tabIndex = 0;
    this.relight();
    this.freeze();
  }

  /** Keep the first columns in place, as many of the config's as leave space for the others. Measured when the browser draws: many changes at once are measured once. */
  freeze(): void {
    cancelAnimationFrame(this.freezing);
    this.freezing = requestAnimationFrame(() => {
      const heads = [...this.head.querySelectorAll<HTMLElement>("th, td")];
      const most = 0.6 * this.dom.clientWidth;
      const lefts: number[] = [];
      let left = 0;
      for (const head of heads) {
        const end = left + head.offsetWidth;
        if (!head.classList.contains("kl-frozen") || (lefts.length > 1 && end > most)) break;
        lefts.push(left);
        left = end;
      }
      const { style } = this.dom;
      heads.forEach((_, at) => {
        style.setProperty(`--kl-left-${at}`, at < lefts.length ? `${lefts[at]}px` : "auto");
        style.setProperty(
          `--kl-edge-${at}`,
          at === lefts.length - 1 ? "var(--kl-line)" : "transparent",
        );
      });
    });
  }

  private heading(column: Column, at: number): HTMLElement {
    const { sorting } = this.state;
    const is = sorting.column === column.name;
    const arrow = is ? (sorting.descending ? " ▼" : " ▲") : "";
    const order = is ? (sorting.descending ? "descending" : "ascending") : "none";
    const made = element(
      "button",
      {
        type: "button",
        class: "kl-sort",
        title: `Sort by ${column.name}: ${column.title}`,
        onclick: () => this.sort(column.name),
      },
      column.name + arrow,
    );
    return element("th", { scope: "col", "aria-sort": order, class: styleOf(column, at) }, made);
  }

  private sort(column: string): void {
    this.state.sortBy(column);
    [...this.head.querySelectorAll("button")]
      .find((one) => one.textContent!.replace(/ [▲▼]$/, "") === column)
      ?.focus();
  }

  private row({ place, config }: Entry, columns: readonly Column[]): HTMLTableRowElement {
    const { mark, words } = STANDING[config.standing];
    const here = this.events.isHere(place)
      ? element("span", { class: "kl-here", title: "Its IR is here" }, "◆")
      : "";
    const cells = columns.map((column, at) => {
      const cell = element("td", { class: styleOf(column, at + 1) }, column.words(config));
      const more = {
        "same result as": config.unchecked || config.checked,
        "matrix instruction": config.matrix,
        dropped: `${config.dropped}: ${config.why}`,
      }[column.name];
      if (more && cell.textContent) cell.title = more;
      return cell;
    });
    const made = element(
      "tr",
      {
        "data-place": place,
        class: `kl-${config.standing}`,
        tabindex: "-1",
        "aria-label": `config ${config.number}: ${configWords(this.state.current, config)}`,
      },
      element("td", { class: "kl-mark-cell kl-frozen", title: words }, mark, here),
      ...cells,
    );
    this.rows.set(place, made);
    return made;
  }

  private relight(): void {
    const { pointed, selected } = this.state;
    for (const [place, row] of this.rows) {
      row.classList.toggle("kl-pointed", place === pointed);
      row.setAttribute("aria-selected", String(selected.includes(place)));
    }
  }

  /** Bring a config's row into view. */
  reveal(place: number): void {
    this.rows.get(place)?.scrollIntoView({ block: "nearest" });
  }

  private click(event: MouseEvent): void {
    const place = placeOf(event);
    if (place === null) return;
    this.events.click(place, event.shiftKey || event.ctrlKey || event.metaKey);
    this.state.point(null); // its words would stay over the plot
  }

  private key(event: KeyboardEvent): void {
    const place = placeOf(event);
    if (place === null) return;
    const at = this.order.indexOf(place);
    const next = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: this.order.length - 1 }[
      event.key
    ];
    if (next !== undefined) {
      const row = this.rows.get(this.order[Math.max(0, Math.min(this.order.length - 1, next))]!)!;
      for (const other of this.rows.values()) other.tabIndex = -1;
      row.tabIndex = 0;
      row.focus();
    } else if (event.key === "Enter") this.events.click(place, event.shiftKey);
    else if (event.key === " ") this.events.click(place, true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** The columns that may stay in place: style sheet and table say how far from the left. */
const MOST_FROZEN = 10;

/** The class of a column's cells. */
function styleOf({ isWords, isFrozen }: Column, at: number): string | undefined {
  if (isFrozen && at < MOST_FROZEN) return "kl-frozen";
  return isWords ? "kl-words-cell" : undefined;
}

function placeOf(event: Event): number | null {
  const row =
    event.target instanceof Element ? event.target.closest<HTMLElement>("tr[data-place]") : null;
  return row === null ? null : Number(row.dataset["place"]);
}
