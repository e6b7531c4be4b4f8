// What the plots of a sweep have in common: a sheet with axes, marks that represent configs, and finding the one that is pointed at.
import { numberWords, type Scale } from "./scales";
import { svg } from "./svg";

/** A place of a chart that can be pointed at. */
export interface Spot {
  /** The config that it represents; null of a baseline. */
  readonly place: number | null;
  readonly x: number;
  readonly y: number;
  /** What to say of it, where it is not a config. */
  readonly words?: string;
}

export interface Chart {
  readonly dom: SVGSVGElement;
  /** In the order in which the arrow keys go through them. */
  readonly spots: readonly Spot[];
  /** The marks of each config. */
  readonly marks: ReadonlyMap<number, readonly SVGElement[]>;
  /** What is at a point; null where nothing is near. */
  find(x: number, y: number): Spot | null;
  /** Where an arrow key leads from a spot, by its number. */
  step(from: number, key: string): number;
}

export interface Margins {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** How near a pointer must be to a spot, in pixels. */
const REACH = 28;

/** Width of a letter of a name, in pixels, about. */
const LETTER = 6;

interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** Whether a mark, of a few pixels, lies in a box. */
const isIn = ({ left, top, width, height }: Box, { x, y }: Spot): boolean =>
  x > left - 5 && x < left + width + 5 && y > top - 5 && y < top + height + 5;

export class Sheet implements Chart {
  private readonly unnamed: { y: number; words: string }[] = [];
  readonly dom: SVGSVGElement;
  readonly spots: Spot[] = [];
  readonly marks = new Map<number, SVGElement[]>();

  constructor(
    readonly width: number,
    readonly height: number,
    readonly margins: Margins,
    label: string,
  ) {
    this.dom = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": label,
    });
  }

  get left(): number {
    return this.margins.left;
  }
  get right(): number {
    return this.width - this.margins.right;
  }
  get top(): number {
    return this.margins.top;
  }
  get bottom(): number {
    return this.height - this.margins.bottom;
  }

  add<Kind extends SVGElement>(made: Kind, ...places: readonly number[]): Kind {
    this.dom.append(made);
    for (const place of places) {
      const marks = this.marks.get(place);
      if (marks === undefined) this.marks.set(place, [made]);
      else marks.push(made);
    }
    return made;
  }

  text(
    words: string,
    x: number,
    y: number,
    anchor: "start" | "middle" | "end" = "middle",
    style = "kl-axis-text",
  ): SVGTextElement {
    return this.add(svg("text", { x, y, "text-anchor": anchor, class: style }, words));
  }

  line(x1: number, y1: number, x2: number, y2: number, style: string): SVGLineElement {
    return this.add(svg("line", { x1, y1, x2, y2, class: style }));
  }

  across(scale: Scale, words: string, tickWords: (value: number) => string = numberWords): void {
    let free = -Infinity;
    for (const tick of scale.ticks) {
      const x = scale.at(tick);
      const label = tickWords(tick);
      const half = 3.5 * label.length;
      this.line(x, this.bottom, x, this.bottom + 4, "kl-axis");
      if (x - half < free) continue;
      this.text(label, x, this.bottom + 16);
      free = x + half + 6;
    }
    this.line(this.left, this.bottom, this.right, this.bottom, "kl-axis");
    this.nameAcross(words);
  }

  /** Name the axis below; of a name that is longer than it, its last part goes. */
  nameAcross(words: string): void {
    const [x, fits] = [(this.left + this.right) / 2, LETTER * words.length < this.right];
    const shown = fits ? words : words.slice(0, words.lastIndexOf(","));
    this.text(shown || words, x, this.height - 6, "middle", "kl-axis-name");
  }

  up(scale: Scale, words: string, tickWords: (value: number) => string = numberWords): void {
    for (const tick of scale.ticks) {
      const y = scale.at(tick);
      this.line(this.left, y, this.right, y, "kl-gridline");
      this.text(tickWords(tick), this.left - 6, y + 4, "end");
    }
    this.line(this.left, this.top, this.left, this.bottom, "kl-axis");
    this.nameUp(words);
  }

  /** Name the axis at the left; of a name that is longer than it, its first part, the unit, stays. */
  nameUp(words: string): void {
    const middle = (this.top + this.bottom) / 2;
    const name = LETTER * words.length > this.height ? words.split(",")[0]! : words;
    this.add(
      svg(
        "text",
        {
          x: 12,
          y: middle,
          "text-anchor": "middle",
          class: "kl-axis-name",
          transform: `rotate(-90 12 ${middle})`,
        },
        name,
      ),
    );
  }

  /** Other ways to compute the same, as dashed lines; `nameBaselines` names them. */
  baselines(baselines: Readonly<Record<string, number>>, scale: Scale): void {
    for (const [name, time] of Object.entries(baselines)) {
      const y = scale.at(time);
      this.line(this.left, y, this.right, y, "kl-baseline");
      this.unnamed.push({ y, words: `${name}, ${numberWords(time)} us` });
    }
  }

  /** The baselines' names, beside their lines where the fewest marks and no other names are. Drawn after the marks, which would cover them. */
  nameBaselines(): void {
    const taken: Box[] = [];
    for (const { y, words } of this.unnamed) {
      const width = LETTER * words.length;
      const lefts = [this.right - 4 - width, this.left + 6, (this.left + this.right - width) / 2];
      const boxes = [y - 16, y + 4, y - 28, y + 16].flatMap((top) =>
        lefts.map((left): Box => ({ left, top, width, height: 12 })),
      );
      const cost = (box: Box): number => {
        const outside = box.top < 0 || box.top + box.height > this.bottom ? 1000 : 0;
        const names = taken.filter(
          (other) =>
            Math.abs(other.top - box.top) < 12 &&
            Math.abs(other.left - box.left) < Math.max(other.width, width),
        ).length;
        return outside + 100 * names + this.spots.filter((spot) => isIn(box, spot)).length;
      };
      const best = boxes.reduce((one, other) => (cost(other) < cost(one) ? other : one));
      taken.push(best);
      this.text(words, best.left, best.top + 11, "start", "kl-baseline-name");
    }
  }

  find(x: number, y: number): Spot | null {
    let [nearest, least]: [Spot | null, number] = [null, REACH];
    for (const spot of this.spots) {
      const distance = Math.hypot(spot.x - x, spot.y - y);
      if (distance < least) [nearest, least] = [spot, distance];
    }
    return nearest;
  }

  step(from: number, key: string): number {
    return from + (key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1);
  }
}
