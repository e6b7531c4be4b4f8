// Numbers as a small picture: one pixel an element, enlarged. NaN is red, infinite magenta, as in the still.
import { element } from "./dom";
import type { Numbers } from "./stepper_trace";

const ANCHORS: readonly (readonly [number, number, number])[] = [
  [68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
  [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37],
];
const LEVELS = 250;

const packed = (red: number, green: number, blue: number): number => (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;

/** Viridis, as pixels of little-endian machines, which browsers run on. */
const COLOURS = Uint32Array.from({ length: LEVELS }, (_, level) => {
  const at = (level / (LEVELS - 1)) * (ANCHORS.length - 1);
  const low = Math.min(ANCHORS.length - 2, Math.floor(at));
  const [red, green, blue] = [0, 1, 2].map((channel) => Math.round(ANCHORS[low]![channel]! + (ANCHORS[low + 1]![channel]! - ANCHORS[low]![channel]!) * (at - low)));
  return packed(red!, green!, blue!);
});
const NAN = packed(230, 0, 38);
const INFINITE = packed(255, 0, 255);

/** Smallest and largest of the finite numbers; equal where there are none. */
export function rangeOf(numbers: Numbers): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (let at = 0; at < numbers.length; at++) {
    const number = Number(numbers[at]!);
    if (!Number.isFinite(number)) continue;
    if (number < low) low = number;
    if (number > high) high = number;
  }
  return low > high ? [0, 0] : [low, high];
}

/** The pixels of numbers; where `touched` is given, an element that is 0 in all of its lists is faint. */
export function paintNumbers(pixels: Uint32Array, numbers: Numbers, touched: readonly Uint32Array[] = []): void {
  const [low, high] = rangeOf(numbers);
  const scale = high > low ? (LEVELS - 1) / (high - low) : 0;
  for (let at = 0; at < numbers.length; at++) {
    const number = Number(numbers[at]!);
    const level = scale === 0 ? LEVELS >> 1 : Math.round((number - low) * scale);
    const colour = Number.isFinite(number) ? COLOURS[level]! : Number.isNaN(number) ? NAN : INFINITE;
    const faint = touched.length > 0 && touched.every((counts) => counts[at] === 0);
    pixels[at] = faint ? ((colour & 0x00ffffff) | 0x55000000) >>> 0 : colour;
  }
}

/** A picture of a tile: pixels that are elements, and above them marks. */
export class Picture {
  readonly dom: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  private readonly image: ImageData;
  private readonly pixels: Uint32Array;
  private readonly context: CanvasRenderingContext2D;

  /** `onpoint` hears which element is pointed at, by pointer or arrow keys; null when the pointer leaves. */
  constructor(
    label: string, readonly rows: number, readonly columns: number, private readonly count: number, room: number, onpoint: (number: number | null) => void,
  ) {
    const scale = Math.min(room / Math.max(rows, columns), 18);
    const size = (extent: number): number => Math.max(4, Math.round(extent * scale));
    const style = `width: ${size(columns)}px; height: ${Math.max(size(rows), 8)}px`;
    this.canvas = element("canvas", { width: columns, height: rows, style, tabindex: "0", role: "img", "aria-label": label });
    this.dom = element("span", { class: "kl-heat" }, this.canvas);
    this.context = this.canvas.getContext("2d")!;
    this.image = this.context.createImageData(columns, rows);
    this.pixels = new Uint32Array(this.image.data.buffer);
    let at = -1;
    const go = (number: number): void => {
      if (number < 0 || number >= this.count) return;
      at = number;
      onpoint(number);
    };
    this.canvas.addEventListener("pointermove", (event) => {
      const box = this.canvas.getBoundingClientRect();
      const column = Math.min(columns - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * columns)));
      const row = Math.min(rows - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * rows)));
      go(row * columns + column);
    });
    this.canvas.addEventListener("pointerleave", () => onpoint(null));
    this.canvas.addEventListener("keydown", (event) => {
      const by: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
      const step = by[event.key];
      if (step === undefined) return;
      event.preventDefault();
      event.stopPropagation(); // arrows go from step to step elsewhere
      go(at < 0 ? 0 : at + step);
    });
  }

  /** Draw numbers; `marks` then colours pixels above them. */
  draw(numbers: Numbers | null, touched: readonly Uint32Array[] = [], marks: ((pixels: Uint32Array) => void) | null = null): void {
    if (numbers === null) this.pixels.fill(0);
    else paintNumbers(this.pixels, numbers, touched);
    marks?.(this.pixels);
    this.context.putImageData(this.image, 0, 0);
  }
}

const READ = packed(255, 127, 14);
const WRITTEN = packed(214, 39, 200);

/** The colour of an element that a step touches: what is below shines through. */
export function markPixel(pixels: Uint32Array, at: number, operation: "load" | "store" | "atomic"): void {
  const [above, below] = [operation === "load" ? READ : WRITTEN, pixels[at]!];
  const channel = (shift: number): number => (0.75 * ((above >>> shift) & 255) + 0.25 * ((below >>> shift) & 255)) << shift;
  pixels[at] = (0xff000000 | channel(0) | channel(8) | channel(16)) >>> 0;
}
