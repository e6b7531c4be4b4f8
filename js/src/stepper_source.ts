// The functions that ran: the line of the step, breakpoints, a click to run to a line.
import type { StepSource } from "./data";
import { element } from "./dom";

export interface SourceListener {
  /** A line was clicked: run to it, or backwards. */
  runTo(source: number, line: number, forwards: boolean): void;
  toggled(source: number, line: number, isOn: boolean): void;
}

const TOKENS =
  /(?<comment>#.*)|(?<string>"""[^]*?(?:"""|$)|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<symbol>@[\w.]+)|(?<keyword>\b(?:def|return|for|in|if|elif|else|while|not|and|or|is|pass|import|from|as|assert|lambda|with|True|False|None)\b)|(?<type>\btl(?:\.\w+)+)|(?<number>(?<![\w.])(?:0x[\da-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\b)/g;

/** A line of Python with its colors. */
function colored(text: string): (Node | string)[] {
  const parts: (Node | string)[] = [];
  let at = 0;
  for (const match of text.matchAll(TOKENS)) {
    const kind = Object.entries(match.groups!).find(([, found]) => found !== undefined)![0];
    parts.push(text.slice(at, match.index), element("span", { class: `kl-${kind}` }, match[0]));
    at = match.index + match[0].length;
  }
  return [...parts, text.slice(at)];
}

/** Panes of a page, each with separate lines. */
let panes = 0;

export class SourcePane {
  private readonly name = ++panes;
  readonly dom = element("div", { class: "kl-source", role: "group", "aria-label": "Source" });
  private readonly title = element("div", { class: "kl-pane-head" });
  private readonly lines = element("div", {
    class: "kl-source-lines",
    tabindex: "0",
    role: "grid",
    "aria-label": "Lines: arrows choose one, Enter runs to it",
  });
  private readonly size: ResizeObserver;
  private readonly drawn = new Map<number, Map<number, HTMLElement>>();
  private readonly breakpoints = new Set<string>();
  private shown: number | null = -1;
  private current: HTMLElement | null = null;
  /** Lines at which other programs are. */
  private others: HTMLElement[] = [];
  /** The line that keys have chosen; null until they are used. */
  private cursor: HTMLElement | null = null;

  constructor(
    private readonly sources: readonly StepSource[],
    private readonly listener: SourceListener,
  ) {
    this.dom.append(this.title, this.lines);
    this.lines.addEventListener("keydown", (event) => this.key(event));
    this.lines.addEventListener("blur", () => this.moveCursor(null));
    // The line of the step stays in sight when the view gets another size.
    this.size = new ResizeObserver(() => this.current !== null && this.reveal(this.current));
    this.size.observe(this.lines);
  }

  hasBreakpoint(source: number | null, line: number): boolean {
    return this.breakpoints.has(`${source}:${line}`);
  }

  /** Show a line of a source, null where the source is not known, and where other programs are. */
  show(
    source: number | null,
    line: number,
    title: string,
    others: ReadonlyMap<number, string> = new Map(),
  ): void {
    if (this.title.textContent !== title) this.title.textContent = title;
    if (source !== this.shown) {
      this.shown = source;
      this.lines.replaceChildren(
        ...(source === null
          ? [element("div", { class: "kl-wait" }, "The source of this function was not recorded.")]
          : this.linesOf(source).values()),
      );
    }
    this.markOthers(source, others);
    const next = source === null ? null : (this.linesOf(source).get(line) ?? null);
    if (next === this.current) return;
    this.current?.removeAttribute("aria-current");
    next?.setAttribute("aria-current", "step");
    this.current = next;
    if (next !== null) this.reveal(next);
  }

  destroy(): void {
    this.size.disconnect();
  }

  /** Name the programs that are at other lines than the one that is shown. */
  private markOthers(source: number | null, others: ReadonlyMap<number, string>): void {
    for (const line of this.others) delete line.dataset["others"];
    this.others = [];
    for (const [line, names] of source === null ? [] : others) {
      const dom = this.linesOf(source!).get(line);
      if (dom === undefined) continue;
      dom.dataset["others"] = names;
      this.others.push(dom);
    }
  }

  /** Scroll within the pane alone: the notebook stays where it is. */
  private reveal(line: HTMLElement): void {
    const { offsetTop: top, offsetHeight: height } = line;
    const { scrollTop, clientHeight } = this.lines;
    if (top < scrollTop + height || top + 2 * height > scrollTop + clientHeight)
      this.lines.scrollTop = top - clientHeight / 2;
  }

  /** In the source, arrows choose a line, which can be run to. */
  private key(event: KeyboardEvent): void {
    const lines = [...this.lines.children] as HTMLElement[];
    const at = lines.indexOf(this.cursor ?? this.current ?? lines[0]!);
    const line = Number(lines[at]?.dataset["line"]);
    const source = this.shown;
    if (event.ctrlKey || event.metaKey || event.altKey || source === null || Number.isNaN(line))
      return;
    const actions: Record<string, () => void> = {
      ArrowUp: () => this.moveCursor(lines[Math.max(0, at - 1)]!),
      ArrowDown: () => this.moveCursor(lines[Math.min(lines.length - 1, at + 1)]!),
      Enter: () => this.listener.runTo(source, line, !event.shiftKey),
      b: () => this.toggle(source, line),
    };
    const action = actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    event.stopPropagation(); // elsewhere arrows go from step to step
    action();
  }

  private moveCursor(line: HTMLElement | null): void {
    this.cursor?.classList.remove("kl-cursor");
    this.cursor = line;
    if (line === null) {
      this.lines.removeAttribute("aria-activedescendant");
      return;
    }
    line.classList.add("kl-cursor");
    this.lines.setAttribute("aria-activedescendant", line.id);
    this.reveal(line);
  }

  toggle(source: number, line: number): void {
    const key = `${source}:${line}`;
    const isOn = !this.breakpoints.delete(key);
    if (isOn) this.breakpoints.add(key);
    this.linesOf(source)
      .get(line)
      ?.querySelector(".kl-stop")
      ?.setAttribute("aria-pressed", String(isOn));
    this.listener.toggled(source, line, isOn);
  }

  private linesOf(source: number): Map<number, HTMLElement> {
    let known = this.drawn.get(source);
    if (known === undefined) {
      const { first_line, lines } = this.sources[source]!;
      known = new Map(
        lines.map((text, place) => [
          first_line + place,
          this.line(source, first_line + place, text),
        ]),
      );
      this.drawn.set(source, known);
    }
    return known;
  }

  private line(source: number, line: number, text: string): HTMLElement {
    const stop = element(
      "button",
      {
        type: "button",
        class: "kl-stop",
        tabindex: "-1",
        "aria-pressed": "false",
        "aria-label": `Breakpoint at line ${line}`,
        title: "Breakpoint",
        onclick: () => this.toggle(source, line),
      },
      String(line),
    );
    const code = element(
      "code",
      {
        title: "Click: run to this line; with shift, back to it",
        onclick: (event) => {
          if (getSelection()?.isCollapsed ?? true)
            this.listener.runTo(source, line, !(event as MouseEvent).shiftKey);
        },
      },
      ...colored(text),
    );
    return element(
      "div",
      {
        class: "kl-source-line",
        role: "row",
        id: `kl-line-${this.name}-${source}-${line}`,
        "data-line": line,
        "aria-label": `line ${line}: ${text.trim()}`,
      },
      element("span", { role: "gridcell" }, stop),
      element("span", { class: "kl-code-place", role: "gridcell" }, code),
    );
  }
}
