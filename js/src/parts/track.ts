// A slider over a picture of what is along it: turns of loops as brackets, events as ticks, faults as flags; a lane for each run. Below the lanes are rows of bars.
import "./track.css";
import { element } from "../dom";
import type { BarKind } from "./bar";

/** Places from one to another, both inclusive. */
export interface Span {
  from: number;
  to: number;
  /** How many spans are around it. */
  depth: number;
}

export interface Tick {
  at: number;
  color: "read" | "written";
}

export interface Lane {
  name: string;
  spans: readonly Span[];
  ticks: readonly Tick[];
  flags: readonly number[];
}

/** Something that lasts, from its first place to its last. */
export interface Bar {
  from: number;
  to: number;
  color: BarKind;
  words: string;
}

export interface Row {
  name: string;
  bars: readonly Bar[];
}

/** Pixels: the width of the slider's thumb, the rows of a lane, and the space around them. */
const THUMB = 9;
const ROW = 7;
const TICKS = 9;
const GAP = 4;
/** Of a row of bars, and of a bar in it. */
const BARS = 14;
const BAR = 9;
/** Nested loops deeper than this have no row. */
const MOST_DEPTH = 3;
/** With more lanes than this, each has ticks alone, and no name. */
const MOST_NAMED = 6;
/** A span narrower than this many pixels is part of a line. */
const LEAST_WIDTH = 4;

const INKS = { read: "--kl-left", written: "--kl-changed" } as const;

export class Track {
  readonly dom: HTMLElement;
  readonly input: HTMLInputElement;
  private readonly canvas = element("canvas", { "aria-hidden": "true" });
  private readonly names = element("div", { class: "kl-track-names" });
  private readonly size: ResizeObserver;
  private lanes: readonly Lane[] = [];
  private rows: readonly Row[] = [];
  private first = 0;
  private last = 0;

  /** `onmove` hears to which place the slider was moved; `onlane` which lane's name was clicked. */
  constructor(
    label: string,
    onmove: (place: number) => void,
    private readonly onlane: (lane: number) => void,
  ) {
    this.input = element("input", { type: "range", "aria-label": label, step: 1 });
    this.input.addEventListener("input", () => onmove(Number(this.input.value)));
    this.input.addEventListener("pointermove", (event) => {
      this.input.title = this.barAt(event)?.words ?? "";
    });
    this.input.addEventListener("click", (event) => {
      const bar = event.detail === 0 ? undefined : this.barAt(event);
      if (bar !== undefined) onmove(bar.from);
    });
    const line = element("div", { class: "kl-track-line" }, this.canvas, this.input);
    this.dom = element("div", { class: "kl-track" }, this.names, line);
    this.size = new ResizeObserver(() => this.draw());
    this.size.observe(line);
  }

  /** Show lanes over places from the first to the last, and rows of bars below them. */
  show(lanes: readonly Lane[], first: number, last: number, rows: readonly Row[] = []): void {
    this.lanes = lanes;
    this.rows = rows;
    this.first = first;
    this.last = last;
    this.input.min = String(first);
    this.input.max = String(Math.max(first, last));
    const isNamed = lanes.length > 1 && lanes.length <= MOST_NAMED;
    this.names.hidden = !isNamed && rows.length === 0;
    this.dom.classList.toggle("kl-has-bars", rows.length > 0);
    const labels = rows.map(({ name }) =>
      element("div", { class: "kl-track-row", title: name, style: `height: ${BARS}px` }, name),
    );
    const space = element("div", { class: "kl-track-name" });
    this.names.replaceChildren(
      ...(isNamed ? lanes : []).map(({ name }, number) =>
        element(
          "button",
          {
            type: "button",
            class: "kl-track-name",
            title: `Show program ${name}`,
            "aria-pressed": "false",
            onclick: () => this.onlane(number),
          },
          name,
        ),
      ),
      ...(isNamed || rows.length === 0 ? [] : [space]),
      ...labels,
    );
    this.draw();
  }

  /** Be at a place, with a lane chosen. */
  moveTo(place: number, words: string, lane: number): void {
    const text = String(place);
    if (this.input.value !== text) this.input.value = text;
    this.input.setAttribute("aria-valuetext", words);
    [...this.names.querySelectorAll("button")].forEach((name, number) => {
      const is = String(number === lane);
      if (name.getAttribute("aria-pressed") !== is) name.setAttribute("aria-pressed", is);
    });
  }

  draw(): void {
    const width = this.canvas.parentElement!.clientWidth;
    const context = this.canvas.getContext("2d");
    if (context === null || width === 0) return;
    const depth = this.depth();
    const lane = this.laneHeight();
    const height = lane * this.lanes.length + BARS * this.rows.length;
    const scale = devicePixelRatio;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.height = `${height}px`;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    this.lanes.forEach((one, number) => this.drawLane(context, one, number * lane, depth));
    this.rows.forEach((row, number) =>
      this.drawBars(context, row, lane * this.lanes.length + number * BARS),
    );
  }

  destroy(): void {
    this.size.disconnect();
  }

  private laneHeight(): number {
    const depth = this.depth();
    return GAP + (depth > 0 ? depth * ROW + 2 : 0) + TICKS + GAP;
  }

  /** The ends of a bar in pixels: it begins and ends in the middle of its places. */
  private ends({ from, to }: Bar): [number, number] {
    const left = this.x(Math.max(from, this.first));
    const right = this.x(Math.min(to, this.last));
    return [left, Math.max(right, left + 3)];
  }

  /** The bar under the pointer, the one that begins last where several are. */
  private barAt({ offsetX, offsetY }: MouseEvent): Bar | undefined {
    const row = Math.floor((offsetY - this.laneHeight() * this.lanes.length) / BARS);
    return this.rows[row]?.bars.findLast((bar) => {
      const [left, right] = this.ends(bar);
      return offsetX >= left && offsetX <= right;
    });
  }

  private drawBars(context: CanvasRenderingContext2D, { bars }: Row, top: number): void {
    const ink = getComputedStyle(this.dom);
    context.fillStyle = ink.getPropertyValue("--kl-line");
    context.fillRect(0, top, this.canvas.clientWidth, 1);
    for (const bar of bars) {
      const [left, right] = this.ends(bar);
      context.fillStyle = ink.getPropertyValue(`--kl-${bar.color}`);
      context.fillRect(left, top + (BARS - BAR + 1) / 2, right - left - 1, BAR);
    }
  }

  private depth(): number {
    if (this.lanes.length > MOST_NAMED) return 0;
    const depths = this.lanes.flatMap(({ spans }) => spans.map((one) => one.depth + 1));
    return Math.min(
      MOST_DEPTH,
      depths.reduce((most, one) => Math.max(most, one), 0),
    );
  }

  /** The middle of the thumb at a place, in pixels. */
  private x(place: number): number {
    const width = this.canvas.parentElement!.clientWidth - THUMB;
    const share = (place - this.first) / Math.max(1, this.last - this.first);
    return THUMB / 2 + share * width;
  }

  private drawLane(
    context: CanvasRenderingContext2D,
    lane: Lane,
    top: number,
    depth: number,
  ): void {
    const ink = getComputedStyle(this.dom);
    const half = (this.x(this.first + 1) - this.x(this.first)) / 2;
    context.strokeStyle = ink.getPropertyValue("--kl-edge");
    context.beginPath();
    for (const { from, to, depth: row } of depth > 0 ? lane.spans : []) {
      if (row >= depth) continue;
      const y = top + GAP + row * ROW + 0.5;
      const [left, right] = [this.x(from) - half + 0.5, this.x(to) + half - 0.5];
      const isBracket = right - left >= LEAST_WIDTH;
      context.moveTo(left, isBracket ? y + ROW - 3 : y);
      context.lineTo(left, y);
      context.lineTo(Math.max(right, left + 1), y);
      if (isBracket) context.lineTo(right, y + ROW - 3);
    }
    context.stroke();
    const below = top + GAP + (depth > 0 ? depth * ROW + 2 : 0);
    const width = Math.max(2, Math.min(5, 2 * half - 2));
    for (const { at, color } of lane.ticks) {
      context.fillStyle = ink.getPropertyValue(INKS[color]);
      context.fillRect(this.x(at) - width / 2, below, width, TICKS);
    }
    context.fillStyle = ink.getPropertyValue("--kl-bad");
    for (const at of lane.flags) {
      const x = this.x(at);
      context.fillRect(x - 1, top + 2, 2, below + TICKS - top - 2);
      context.beginPath();
      context.moveTo(x, top + 1);
      context.lineTo(x + (x > 20 ? -10 : 10), top + 5.5);
      context.lineTo(x, top + 10);
      context.fill();
    }
  }
}
