// The functions that ran: the line of the step, breakpoints, a click to run to a line.
import type { StepSource } from "./data";
import { element } from "./dom";

export interface SourceListener {
  /** A line was clicked: run to it, or backwards. */
  runTo(source: number, line: number, forwards: boolean): void;
  toggled(source: number, line: number, isOn: boolean): void;
}

const TOKENS = /(?<comment>#.*)|(?<string>"""[^]*?(?:"""|$)|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<symbol>@[\w.]+)|(?<keyword>\b(?:def|return|for|in|if|elif|else|while|not|and|or|is|pass|import|from|as|assert|lambda|with|True|False|None)\b)|(?<type>\btl(?:\.\w+)+)|(?<number>(?<![\w.])(?:0x[\da-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\b)/g;

/** A line of Python with its colours. */
function coloured(text: string): (Node | string)[] {
  const parts: (Node | string)[] = [];
  let at = 0;
  for (const match of text.matchAll(TOKENS)) {
    const kind = Object.entries(match.groups!).find(([, found]) => found !== undefined)![0];
    parts.push(text.slice(at, match.index), element("span", { class: `kl-${kind}` }, match[0]));
    at = match.index + match[0].length;
  }
  return [...parts, text.slice(at)];
}

export class SourcePane {
  readonly dom = element("div", { class: "kl-source", role: "group", "aria-label": "Source" });
  private readonly title = element("div", { class: "kl-pane-head" });
  private readonly lines = element("div", { class: "kl-source-lines", tabindex: "0", role: "list", "aria-label": "Lines" });
  private readonly drawn = new Map<number, Map<number, HTMLElement>>();
  private readonly breakpoints = new Set<string>();
  private shown: number | null = -1;
  private current: HTMLElement | null = null;

  constructor(private readonly sources: readonly StepSource[], private readonly listener: SourceListener) {
    this.dom.append(this.title, this.lines);
  }

  hasBreakpoint(source: number | null, line: number): boolean {
    return this.breakpoints.has(`${source}:${line}`);
  }

  /** Show a line of a source; null where the source is not known. */
  show(source: number | null, line: number, title: string): void {
    if (this.title.textContent !== title) this.title.textContent = title;
    if (source !== this.shown) {
      this.shown = source;
      this.lines.replaceChildren(...(source === null ? [element("div", { class: "kl-wait" }, "The source of this function was not recorded.")] : this.linesOf(source).values()));
    }
    const next = source === null ? null : (this.linesOf(source).get(line) ?? null);
    if (next === this.current) return;
    this.current?.removeAttribute("aria-current");
    next?.setAttribute("aria-current", "step");
    this.current = next;
    if (next !== null) this.reveal(next);
  }

  /** Scroll within the pane alone: the notebook stays where it is. */
  private reveal(line: HTMLElement): void {
    const { offsetTop: top, offsetHeight: height } = line;
    const { scrollTop, clientHeight } = this.lines;
    if (top < scrollTop + height || top + 2 * height > scrollTop + clientHeight) this.lines.scrollTop = top - clientHeight / 2;
  }

  toggle(source: number, line: number): void {
    const key = `${source}:${line}`;
    const isOn = !this.breakpoints.delete(key);
    if (isOn) this.breakpoints.add(key);
    this.linesOf(source).get(line)?.querySelector(".kl-stop")?.setAttribute("aria-pressed", String(isOn));
    this.listener.toggled(source, line, isOn);
  }

  private linesOf(source: number): Map<number, HTMLElement> {
    let known = this.drawn.get(source);
    if (known === undefined) {
      const { first_line, lines } = this.sources[source]!;
      known = new Map(lines.map((text, place) => [first_line + place, this.line(source, first_line + place, text)]));
      this.drawn.set(source, known);
    }
    return known;
  }

  private line(source: number, line: number, text: string): HTMLElement {
    const stop = element("button", {
      type: "button", class: "kl-stop", tabindex: "-1", "aria-pressed": "false", "aria-label": `Breakpoint at line ${line}`, title: "Breakpoint",
      onclick: () => this.toggle(source, line),
    }, String(line));
    const code = element("code", {
      title: "Click: run to this line; with shift, back to it",
      onclick: (event) => {
        if (getSelection()?.isCollapsed ?? true) this.listener.runTo(source, line, !(event as MouseEvent).shiftKey);
      },
    }, ...coloured(text));
    return element("div", { class: "kl-source-line", role: "listitem" }, stop, code);
  }
}
