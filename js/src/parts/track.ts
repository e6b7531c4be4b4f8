// A slider over a picture of what is along it: turns of loops as brackets, events as ticks, faults as flags; a lane for each run.
import "./track.css";
import { element } from "../dom";

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

/** Pixels: the width of the slider's thumb, the rows of a lane, and the space around them. */
const THUMB = 9;
const ROW = 7;
const TICKS = 9;
const GAP = 4;
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
    const line = element("div", { class: "kl-track-line" }, this.canvas, this.input);
    this.dom = element("div", { class: "kl-track" }, this.names, line);
    this.size = new ResizeObserver(() => this.draw());
    this.size.observe(line);
  }

  /** Show lanes over places from the first to the last. */
  show(lanes: readonly Lane[], first: number, last: number): void {
    this.lanes = lanes;
    this.first = first;
    this.last = last;
    this.input.min = String(first);
    this.input.max = String(Math.max(first, last));
    const isNamed = lanes.length > 1 && lanes.length <= MOST_NAMED;
    this.names.hidden = !isNamed;
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
    );
    this.draw();
  }

  /** Be at a place, with a lane chosen. */
  moveTo(place: number, words: string, lane: number): void {
    const text = String(place);
    if (this.input.value !== text) this.input.value = text;
    this.input.setAttribute("aria-valuetext", words);
    [...this.names.children].forEach((name, number) => {
      const is = String(number === lane);
      if (name.getAttribute("aria-pressed") !== is) name.setAttribute("aria-pressed", is);
    });
  }

  draw(): void {
    const width = this.canvas.parentElement!.clientWidth;
    const context = this.canvas.getContext("2d");
    if (context === null || width === 0) return;
    const depth = this.depth();
    const height = GAP + (depth > 0 ? depth * ROW + 2 : 0) + TICKS + GAP;
    const scale = devicePixelRatio;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * this.lanes.length * scale);
    this.canvas.style.height = `${height * this.lanes.length}px`;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    this.lanes.forEach((lane, number) => this.drawLane(context, lane, number * height, depth));
  }

  destroy(): void {
    this.size.disconnect();
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
