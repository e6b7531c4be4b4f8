// A timeline: a row for each warp, time to the right, on one canvas. It is zoomed and moved by keys, wheel and buttons; a dragged rectangle selects.
import "./timeline.css";
import type { TimelineData, TimelineRow } from "../data";
import { button, element, toolbar } from "../dom";
import { numberWords, roundNumbers } from "../scales";
import type { BarKind } from "./bar";

/** Events row by row: when each begins and ends, and the place of its name. */
export interface Slices {
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  readonly scopes: Int32Array;
}

/** A piece of time. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** A piece of time of some rows, the last one included. */
export interface Selection extends Span {
  readonly first: number;
  readonly last: number;
}

/** The events in the bytes of a timeline. */
export function slicesOf(bytes: ArrayBuffer): Slices {
  const count = bytes.byteLength / 20;
  return {
    starts: new Float64Array(bytes, 0, count),
    ends: new Float64Array(bytes, 8 * count, count),
    scopes: new Int32Array(bytes, 16 * count, count),
  };
}

/** Where the events of each row begin, and where those of the last row end. */
export function beginnings(rows: readonly TimelineRow[]): number[] {
  const begins = [0];
  for (const { events } of rows) begins.push(begins[begins.length - 1]! + events);
  return begins;
}

/** How long each name lasted in a selection: only what lies in it counts. */
export function sumsIn(
  slices: Slices,
  begins: readonly number[],
  { from, to, first, last }: Selection,
): Map<number, number> {
  const sums = new Map<number, number>();
  for (let at = begins[first]!; at < begins[last + 1]!; at++) {
    const inside = Math.min(slices.ends[at]!, to) - Math.max(slices.starts[at]!, from);
    const scope = slices.scopes[at]!;
    if (inside > 0) sums.set(scope, (sums.get(scope) ?? 0) + inside);
  }
  return sums;
}

/** A window zoomed by a factor around a time, or moved by a share of itself; it stays in the whole. */
export function moved(
  window: Span,
  whole: number,
  { factor = 1, around = (window.from + window.to) / 2, by = 0 },
): Span {
  const length = window.to - window.from;
  const wide = Math.min(whole, Math.max(length * factor, Math.min(whole, 8)));
  const share = (around - window.from) / length;
  const from = around - share * wide + by * length;
  const kept = Math.max(0, Math.min(whole - wide, from));
  return { from: kept, to: kept + wide };
}

/** The name of a row in words. */
export function rowWords({ program, warp }: TimelineRow): string {
  if (program < 0) return warp < 0 ? "launches" : `stream ${warp}`;
  return warp < 0 ? `program ${program}` : `program ${program}, warp ${warp}`;
}

export interface TimelineEvents {
  /** What each name took in the selection; null where nothing is selected. */
  select(sums: ReadonlyMap<number, number> | null): void;
  /** An event was clicked. */
  click(scope: number): void;
}

const AXIS = 20;
const LABELS = 92;
/** Pixels that a pointer moves before it selects. */
const DRAG = 4;
const ROW = { least: 3, most: 16, all: 300 };
const KEYS = "W and S zoom, A and D move, Home shows all, Escape clears the selection.";

export class Timeline {
  readonly dom = element("div", { class: "kl-timeline" });
  private readonly canvas = element("canvas", {
    tabindex: "0",
    role: "application",
    "aria-roledescription": "timeline",
  });
  private readonly words = element("div", { class: "kl-timeline-words kl-soft", role: "status" });
  private readonly selected = element("span", { class: "kl-soft", role: "status" });
  private readonly unselect = button("Clear", "Show the shares of all again (Esc)", () =>
    this.clear(),
  );
  private readonly count: string;
  private readonly begins: readonly number[];
  private readonly whole: number;
  private window: Span;
  private selection: Selection | null = null;
  private lit: ReadonlySet<number> | null = null;
  private drawing = 0;
  private readonly resized = new ResizeObserver(() => this.draw());
  private readonly themed = new MutationObserver(() => this.draw());

  constructor(
    private readonly data: TimelineData,
    private readonly slices: Slices,
    private readonly events: TimelineEvents,
  ) {
    this.begins = beginnings(data.rows);
    this.whole = slices.ends.reduce((most, end) => Math.max(most, end), 1);
    this.window = { from: 0, to: this.whole };
    const left = data.left_out === "" ? "" : `, ${data.left_out}`;
    this.count = `${slices.starts.length.toLocaleString("en")} events${left}`;
    this.canvas.setAttribute(
      "aria-label",
      `Timeline of ${this.count} in ${data.rows.length} rows. ${KEYS}`,
    );
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("pointerdown", (event) => this.press(event));
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => this.say(""));
    this.dom.append(this.toolbar(), this.canvas, this.words);
    this.say("");
    this.saySelected(null);
    this.resized.observe(this.dom);
    queueMicrotask(() => {
      const root = this.dom.closest(".kl-root");
      if (root) this.themed.observe(root, { attributes: true });
    });
  }

  destroy(): void {
    this.resized.disconnect();
    this.themed.disconnect();
    cancelAnimationFrame(this.drawing);
  }

  /** Draw the events of some names alone in full color; null for all. */
  light(scopes: ReadonlySet<number> | null): void {
    this.lit = scopes;
    this.draw();
  }

  /** Select nothing. */
  clear(): void {
    if (this.selection === null) return;
    this.selection = null;
    this.saySelected(null);
    this.events.select(null);
    this.draw();
  }

  private saySelected(sum: number | null): void {
    const { selection } = this;
    this.unselect.hidden = selection === null;
    if (selection === null || sum === null) {
      this.selected.textContent = this.count;
      return;
    }
    const { from, to, first, last } = selection;
    const rows = last - first + 1;
    const of = rows === 1 ? rowWords(this.data.rows[first]!) : `${rows} rows`;
    const [start, end] = [from, to].map((time) => Math.round(time).toLocaleString("en"));
    this.selected.textContent = `Lines show the selection: ${this.amount(sum)}, ${start} to ${end} of ${of}`;
  }

  private toolbar(): HTMLElement {
    const zoom = (factor: number) => () => this.turn(moved(this.window, this.whole, { factor }));
    return toolbar(
      "Timeline",
      element("b", {}, "Timeline"),
      this.selected,
      this.unselect,
      element("span", { class: "kl-space" }),
      button("+", "Zoom in (W, or the wheel)", zoom(0.5)),
      button("−", "Zoom out (S, or the wheel)", zoom(2)),
      button("all", "Show all (Home)", () => this.turn({ from: 0, to: this.whole })),
    );
  }

  // Places

  private get left(): number {
    return this.canvas.clientWidth > 520 ? LABELS : 34;
  }

  private get row(): number {
    return Math.max(ROW.least, Math.min(ROW.most, ROW.all / this.data.rows.length));
  }

  private x(time: number): number {
    const { from, to } = this.window;
    return this.left + ((time - from) / (to - from)) * (this.canvas.clientWidth - this.left);
  }

  private time(x: number): number {
    const { from, to } = this.window;
    return from + ((x - this.left) / (this.canvas.clientWidth - this.left)) * (to - from);
  }

  private rowAt(y: number): number {
    const at = Math.floor((y - AXIS) / this.row);
    return Math.max(0, Math.min(this.data.rows.length - 1, at));
  }

  /** The event at a point, the shortest where several are; null for none. */
  private find(x: number, y: number): number | null {
    if (x < this.left || y < AXIS) return null;
    const [row, time] = [this.rowAt(y), this.time(x)];
    const { starts, ends } = this.slices;
    let found: number | null = null;
    for (let at = this.begins[row]!; at < this.begins[row + 1]!; at++) {
      if (starts[at]! > time || ends[at]! <= time) continue;
      if (found === null || ends[at]! - starts[at]! < ends[found]! - starts[found]!) found = at;
    }
    return found;
  }

  // Moving

  private turn(window: Span): void {
    this.window = window;
    this.draw();
  }

  private wheel(event: WheelEvent): void {
    // The page keeps its wheel until somebody clicks into the timeline.
    if (!event.ctrlKey && this.canvas !== (this.canvas.getRootNode() as Document).activeElement)
      return;
    event.preventDefault();
    event.stopPropagation();
    const isAside = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const turned = (event.deltaX || event.deltaY) / 600;
    const around = this.time(Math.max(this.left, event.offsetX));
    this.turn(
      moved(
        this.window,
        this.whole,
        isAside ? { by: turned } : { factor: Math.exp(event.deltaY / 400), around },
      ),
    );
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const change = {
      w: { factor: 0.7 },
      s: { factor: 1 / 0.7 },
      a: { by: -0.15 },
      d: { by: 0.15 },
      ArrowLeft: { by: -0.15 },
      ArrowRight: { by: 0.15 },
    }[key];
    if (change !== undefined) this.turn(moved(this.window, this.whole, change));
    else if (key === "Home") this.turn({ from: 0, to: this.whole });
    else if (key === "Escape" && this.selection !== null) this.clear();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Pointing and selecting

  private hover({ offsetX, offsetY, buttons }: PointerEvent): void {
    if (buttons !== 0) return;
    const at = this.find(offsetX, offsetY);
    if (at === null) return this.say("");
    const { starts, ends, scopes } = this.slices;
    const [start, end] = [starts[at]!, ends[at]!];
    const row = rowWords(this.data.rows[this.rowAt(offsetY)]!);
    const name = this.data.names[scopes[at]!]!;
    this.say(`${name}: ${this.amount(end - start)}, from ${numberWords(start)}; ${row}`);
  }

  private amount(value: number): string {
    return `${Math.round(value).toLocaleString("en")} ${this.data.unit}`;
  }

  private say(words: string): void {
    this.words.textContent =
      words || "Click into it, then W and S or the wheel zoom, A and D move; drag to sum a part.";
  }

  private press(down: PointerEvent): void {
    if (down.button !== 0) return;
    const from = [down.offsetX, down.offsetY] as const;
    let dragged = false;
    const move = ({ offsetX, offsetY }: PointerEvent): void => {
      if (!dragged && Math.hypot(offsetX - from[0], offsetY - from[1]) < DRAG) return;
      if (!dragged) this.canvas.setPointerCapture(down.pointerId);
      dragged = true;
      this.selectBetween(from, [offsetX, offsetY]);
    };
    const end = (): void => {
      this.canvas.removeEventListener("pointermove", move);
      if (dragged) return;
      const at = this.find(...from);
      if (at === null) this.clear();
      else this.events.click(this.slices.scopes[at]!);
    };
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener("pointerup", end, { once: true });
  }

  private selectBetween(one: readonly [number, number], other: readonly [number, number]): void {
    const times = [one, other].map(([x]) => Math.max(0, this.time(Math.max(this.left, x))));
    const rows = [one, other].map(([, y]) => this.rowAt(y));
    this.selection = {
      from: Math.min(...times),
      to: Math.min(this.whole, Math.max(...times)),
      first: Math.min(...rows),
      last: Math.max(...rows),
    };
    const sums = sumsIn(this.slices, this.begins, this.selection);
    this.saySelected([...sums.values()].reduce((all, one) => all + one, 0));
    this.events.select(sums);
    this.draw();
  }

  // Drawing

  private draw(): void {
    cancelAnimationFrame(this.drawing);
    this.drawing = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    const { canvas } = this;
    const height = AXIS + this.row * this.data.rows.length + 1;
    canvas.style.height = `${height}px`;
    const width = canvas.clientWidth;
    const context = canvas.getContext("2d");
    if (width === 0 || context === null) return;
    const ratio = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    context.scale(ratio, ratio);
    const style = getComputedStyle(canvas);
    const color = (name: string): string => style.getPropertyValue(`--kl-${name}`).trim();
    context.font = `11px ${style.fontFamily}`;
    this.paintAxis(context, width, height, color);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, width - this.left, height);
    context.clip();
    this.data.rows.forEach((_, row) => this.paintRow(context, row, width, color));
    if (this.selection !== null) this.paintSelection(context, this.selection, color);
    context.restore();
    this.paintLabels(context, color);
  }

  private paintAxis(
    context: CanvasRenderingContext2D,
    width: number,
    height: number,
    color: (name: string) => string,
  ): void {
    const { from, to } = this.window;
    const count = Math.max(2, Math.floor((width - this.left) / 110));
    context.fillStyle = color("soft");
    context.textAlign = "left";
    context.fillText(this.data.unit, 2, 12);
    context.textAlign = "center";
    for (const tick of roundNumbers(from, to, count)) {
      const x = this.x(tick);
      const words = tick.toLocaleString("en");
      context.fillStyle = color("line");
      context.fillRect(Math.round(x), AXIS - 4, 1, height);
      context.fillStyle = color("soft");
      const half = context.measureText(words).width / 2;
      if (x - half >= this.left && x + half <= width) context.fillText(words, x, 12);
    }
  }

  private paintRow(
    context: CanvasRenderingContext2D,
    row: number,
    width: number,
    color: (name: string) => string,
  ): void {
    const { starts, ends, scopes } = this.slices;
    const colors = this.data.kinds.map((kind: BarKind) => color(kind));
    const [top, high] = [AXIS + row * this.row, Math.max(1, this.row - (this.row > 5 ? 2 : 1))];
    const paper = color("paper");
    let drawn = -Infinity;
    for (let at = this.begins[row]!; at < this.begins[row + 1]!; at++) {
      if (ends[at]! < this.window.from || starts[at]! > this.window.to) continue;
      const [x, end] = [Math.max(this.left, this.x(starts[at]!)), this.x(ends[at]!)];
      const isLit = this.lit === null || this.lit.has(scopes[at]!);
      if (end - x < 1 && x < drawn + 0.5 && (this.lit === null || !isLit)) continue;
      drawn = Math.max(end, x + 0.7);
      context.globalAlpha = isLit ? 1 : 0.14;
      context.fillStyle = colors[scopes[at]!]!;
      context.fillRect(x, top, Math.max(0.7, end - x - (end - x > 3 ? 1 : 0)), high);
      if (high < 10 || end - x < 60 || !isLit) continue;
      context.globalAlpha = 1;
      context.fillStyle = paper;
      context.textAlign = "left";
      const space = Math.min(end, width) - x - 6;
      context.fillText(
        fitted(context, this.data.names[scopes[at]!]!, space),
        x + 3,
        top + high - 3,
      );
    }
    context.globalAlpha = 1;
  }

  private paintSelection(
    context: CanvasRenderingContext2D,
    { from, to, first, last }: Selection,
    color: (name: string) => string,
  ): void {
    const [x, end] = [this.x(from), this.x(to)];
    const [top, high] = [AXIS + first * this.row - 1, (last - first + 1) * this.row];
    context.strokeStyle = color("ink");
    context.lineWidth = 1.5;
    context.strokeRect(x, top, Math.max(1, end - x), high);
    context.globalAlpha = 0.12;
    context.fillStyle = color("ink");
    context.fillRect(x, top, Math.max(1, end - x), high);
    context.globalAlpha = 1;
  }

  /** A program's name beside its rows; where there is space, each warp's. */
  private paintLabels(context: CanvasRenderingContext2D, color: (name: string) => string): void {
    context.textAlign = "left";
    context.fillStyle = color("soft");
    const { rows } = this.data;
    const isWide = this.left === LABELS;
    let free = AXIS;
    rows.forEach(({ program, warp }, row) => {
      const isFirst = row === 0 || rows[row - 1]!.program !== program;
      const y = AXIS + row * this.row + Math.min(this.row, 11) - 2;
      if (isFirst && y >= free) {
        const words = program < 0 ? "launches" : isWide ? `program ${program}` : `${program}`;
        context.fillText(words, 2, y);
        free = y + 11;
      }
      if (isWide && warp >= 0 && this.row >= 10) context.fillText(`${warp}`, LABELS - 14, y);
    });
  }
}

/** As much of some words as fits. */
function fitted(context: CanvasRenderingContext2D, words: string, space: number): string {
  if (context.measureText(words).width <= space) return words;
  const letter = context.measureText("0").width;
  const count = Math.floor(space / letter) - 1;
  return count < 3 ? "" : `${words.slice(0, count)}…`;
}
