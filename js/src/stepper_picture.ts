// Numbers as a small picture: one pixel an element, enlarged.
import { element } from "./dom";
import { ANCHORS, type Color, INFINITE, NAN, READ, WRITTEN, ZERO } from "./palette";
import type { Numbers } from "./stepper_trace";

const LEVELS = 250;

const packed = ([red, green, blue]: Color): number =>
  (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;

/** Viridis, as pixels of little-endian machines, which browsers run on. */
const COLORS = Uint32Array.from({ length: LEVELS }, (_, level) => {
  const at = (level / (LEVELS - 1)) * (ANCHORS.length - 1);
  const low = Math.min(ANCHORS.length - 2, Math.floor(at));
  const channel = (number: 0 | 1 | 2): number =>
    Math.round(
      ANCHORS[low]![number] + (ANCHORS[low + 1]![number] - ANCHORS[low]![number]) * (at - low),
    );
  return packed([channel(0), channel(1), channel(2)]);
});
const ZERO_PIXEL = packed(ZERO);
const NAN_PIXEL = packed(NAN);
const INFINITE_PIXEL = packed(INFINITE);

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

/** The scale of pictures of a type: a mask's is off to on whatever is in it, of others it goes from their smallest to their largest number. */
export const scaleOf = (type: string): [number, number] | null =>
  type.startsWith("bool") ? [0, 1] : null;

/** The pixels of numbers: zeros are gray, but on a fixed scale, which says what they are; where `touched` is given, an element that is 0 in all of its lists is faint. */
export function paintNumbers(
  pixels: Uint32Array,
  numbers: Numbers,
  fixed: [number, number] | null = null,
  touched: readonly Uint32Array[] = [],
): void {
  const [low, high] = fixed ?? rangeOf(numbers);
  const scale = high > low ? (LEVELS - 1) / (high - low) : 0;
  for (let at = 0; at < numbers.length; at++) {
    const number = Number(numbers[at]!);
    const level = scale === 0 ? LEVELS >> 1 : Math.round((number - low) * scale) || 0;
    let color = COLORS[level]!;
    if (number === 0 && fixed === null) color = ZERO_PIXEL;
    else if (Number.isNaN(number)) color = NAN_PIXEL;
    else if (!Number.isFinite(number)) color = INFINITE_PIXEL;
    const faint = touched.length > 0 && touched.every((counts) => counts[at] === 0);
    pixels[at] = faint ? ((color & 0x00ffffff) | 0x55000000) >>> 0 : color;
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
    label: string,
    readonly rows: number,
    readonly columns: number,
    private readonly count: number,
    [across, down]: readonly [number, number],
    onpoint: (number: number | null) => void,
  ) {
    const scale = Math.min(across / columns, down / rows, 18);
    const size = (extent: number): number => Math.max(4, Math.round(extent * scale));
    const style = `width: ${size(columns)}px; height: ${Math.max(size(rows), 8)}px`;
    this.canvas = element("canvas", {
      width: columns,
      height: rows,
      style,
      tabindex: "0",
      role: "img",
      "aria-label": label,
    });
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
      const column = Math.min(
        columns - 1,
        Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * columns)),
      );
      const row = Math.min(
        rows - 1,
        Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * rows)),
      );
      go(row * columns + column);
    });
    this.canvas.addEventListener("pointerleave", () => onpoint(null));
    this.canvas.addEventListener("keydown", (event) => {
      const by: Record<string, number> = {
        ArrowLeft: -1,
        ArrowRight: 1,
        ArrowUp: -columns,
        ArrowDown: columns,
      };
      const step = by[event.key];
      if (step === undefined) return;
      event.preventDefault();
      event.stopPropagation(); // arrows go from step to step elsewhere
      go(at < 0 ? 0 : at + step);
    });
  }

  /** Put a ring around a pixel that stays whatever is drawn. */
  mark(pixel: number, title: string): void {
    const [row, column] = [Math.floor(pixel / this.columns), pixel % this.columns];
    const part = (place: number, of: number): string => `${(100 * place) / of}%`;
    const style = [
      `left: ${part(column + 0.5, this.columns)}`,
      `top: ${part(row + 0.5, this.rows)}`,
      `width: max(11px, ${part(1, this.columns)} + 4px)`,
      `height: max(11px, ${part(1, this.rows)} + 4px)`,
    ];
    this.dom.append(
      element("span", {
        class: "kl-ring",
        style: style.join("; "),
        "aria-label": `${title} is wrong`,
      }),
    );
  }

  /** Draw numbers; `marks` then colors pixels above them. */
  draw(
    numbers: Numbers | null,
    scale: [number, number] | null,
    touched: readonly Uint32Array[] = [],
    marks: ((pixels: Uint32Array) => void) | null = null,
  ): void {
    if (numbers === null) this.pixels.fill(0);
    else paintNumbers(this.pixels, numbers, scale, touched);
    marks?.(this.pixels);
    this.context.putImageData(this.image, 0, 0);
  }
}

const READ_PIXEL = packed(READ);
const WRITTEN_PIXEL = packed(WRITTEN);

/** The color of an element that a step touches. */
export function markPixel(
  pixels: Uint32Array,
  at: number,
  operation: "load" | "store" | "atomic",
): void {
  pixels[at] = operation === "load" ? READ_PIXEL : WRITTEN_PIXEL;
}
