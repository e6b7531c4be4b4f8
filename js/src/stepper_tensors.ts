// The tensors of the launch after a step: touched now in orange and blue, never touched so far faint.
import { element } from "./dom";
import type { LeftOut } from "./stepper_left_out";
import { cellWords, pixelOf, TensorMemory, type Whole } from "./stepper_memory";
import { reveal } from "./reveal";
import { markPixel, Picture, rangeOf, scaleOf } from "./stepper_picture";
import { indexOf, numberText, type TraceReader } from "./stepper_trace";
import type { Pointed } from "./stepper_values";

interface Pane {
  tensor: TensorMemory;
  dom: HTMLElement;
  picture: Picture | null;
  words: HTMLElement;
  /** What the wrong element holds and should hold; null for a tensor without one. */
  wrong: HTMLElement | null;
  version: number;
  /** Whether the steps that were drawn last touched it. */
  wasTouched: boolean;
}

/** Pixels across and down that a picture takes at most. */
const SPACE = [112, 84] as const;

const times = (count: number): string =>
  count === 0 ? "never" : count === 1 ? "once" : `${count.toLocaleString("en")} times`;

export class TensorsPane {
  readonly dom = element("div", { class: "kl-tensors", role: "group", "aria-label": "Tensors" });
  private readonly panes: Pane[];
  private order: readonly number[] | null = null;
  private count = -1;
  private steps: readonly number[] = [];

  constructor(
    private readonly reader: TraceReader,
    private readonly leftOut: () => LeftOut,
    private readonly onpoint: (pointed: Pointed | null) => void,
  ) {
    this.panes = reader.data.arguments.map((_, number) =>
      this.pane(new TensorMemory(reader, number), number),
    );
    this.dom.append(...this.panes.map(({ dom }) => dom));
  }

  /** The tensors after so many steps of an order, the last of which are to be marked. */
  show(order: readonly number[], count: number, steps: readonly number[]): void {
    // Going several steps at once may touch any tensor.
    const isFar = order !== this.order || Math.abs(count - this.count) > steps.length;
    for (const pane of this.panes) {
      if (order !== this.order) pane.tensor.follow(order);
      pane.tensor.goTo(count);
      const mine = steps.flatMap((step) => pane.tensor.accesses(step));
      pane.dom.classList.toggle("kl-touched", mine.length > 0);
      if (isFar || mine.length > 0 || pane.wasTouched || pane.version !== pane.tensor.version)
        this.draw(pane, mine);
    }
    this.order = order;
    this.count = count;
    this.steps = steps;
    const touched = this.panes.find(({ wasTouched }) => wasTouched);
    if (touched !== undefined) reveal(touched.dom, this.dom, this.dom.parentElement);
  }

  /** A kernel sent every element of a tensor. */
  fill(number: number, whole: Whole): void {
    const old = this.panes[number]!;
    const hadFocus = old.picture?.canvas.matches(":focus") ?? false;
    const pane = (this.panes[number] = this.pane(
      new TensorMemory(this.reader, number, whole),
      number,
    ));
    old.dom.replaceWith(pane.dom);
    if (this.order === null) return;
    pane.tensor.follow(this.order);
    pane.tensor.goTo(this.count);
    this.draw(
      pane,
      this.steps.flatMap((step) => pane.tensor.accesses(step)),
    );
    if (hadFocus) pane.picture?.canvas.focus();
  }

  private draw(pane: Pane, mine: ReturnType<TensorMemory["accesses"]>): void {
    const { tensor, picture } = pane;
    pane.wasTouched = mine.length > 0;
    picture?.draw(
      tensor.shown,
      scaleOf(tensor.data.type),
      [tensor.reads, tensor.writes],
      (pixels) => {
        for (const { places, operation } of mine) {
          if (places !== null)
            tensor.eachRun(places, (first, count) => {
              for (let at = first; at < first + count; at++) markPixel(pixels, at, operation);
            });
        }
      },
    );
    if (pane.version !== tensor.version) pane.words.textContent = this.rangeWords(tensor);
    if (pane.wrong !== null) pane.wrong.textContent = this.wrongWords(tensor);
    pane.version = tensor.version;
  }

  private rangeWords(tensor: TensorMemory): string {
    const { shown, data } = tensor;
    if (!tensor.isExact || shown === null) return `${data.words} at first; neighbors are averaged`;
    const { dtype } = data.elements!;
    let [nans, infinities] = [0, 0];
    for (let at = 0; at < shown.length; at++) {
      const number = Number(shown[at]!);
      if (Number.isNaN(number)) nans++;
      else if (!Number.isFinite(number)) infinities++;
    }
    const [low, high] = rangeOf(shown).map((end) =>
      dtype === "float32" || dtype === "float64"
        ? String(Number(end.toPrecision(6)))
        : numberText(end, dtype),
    );
    const words = nans === shown.length ? [] : [low === high ? low! : `${low} .. ${high}`];
    if (nans > 0) words.push(`${nans.toLocaleString("en")} NaN`);
    if (infinities > 0) words.push(`${infinities.toLocaleString("en")} infinite`);
    return words.join(", ");
  }

  private pane(tensor: TensorMemory, number: number): Pane {
    const { data } = tensor;
    const words = element(
      "span",
      {},
      tensor.isExact || data.elements === null ? data.words : this.rangeWords(tensor),
    );
    const picture =
      data.elements === null
        ? null
        : new Picture(
            `Elements of ${data.name}`,
            data.elements.rows,
            data.elements.columns,
            tensor.shown!.length,
            SPACE,
            (place) => this.onpoint(place === null ? null : () => this.elementWords(tensor, place)),
          );
    if (!tensor.isExact)
      for (const event of ["pointerenter", "focus"])
        picture?.canvas.addEventListener(event, () => this.leftOut().lookAtTensor(number));
    const mine = this.reader.data.wrong?.argument === number ? this.reader.data.wrong : null;
    const wrong = mine === null ? null : element("div", { class: "kl-wrong" });
    if (mine !== null && data.elements !== null)
      picture?.mark(pixelOf(data.shape, data.elements, mine.element), mine.name);
    const head = element(
      "figcaption",
      {},
      element("b", {}, data.name),
      " ",
      element("span", { class: "kl-soft" }, data.type),
      element("br"),
      words,
      ...(wrong === null ? [] : [wrong]),
    );
    const dom = element(
      "figure",
      { "data-name": data.name },
      head,
      picture === null ? element("span", { class: "kl-soft" }, "no elements") : picture.dom,
    );
    return { tensor, dom, picture, words, wrong, version: tensor.version, wasTouched: false };
  }

  /** What the wrong element holds after this step, and what it should hold in the end. */
  private wrongWords(tensor: TensorMemory): string {
    const { name, element: number, expected, actual } = this.reader.data.wrong!;
    const { dtype } = tensor.data.elements ?? { dtype: "" };
    const isKnown = tensor.isExact && tensor.shown !== null;
    const now = isKnown ? numberText(tensor.shown![number]!, dtype) : actual;
    return `✗ ${name} is ${now}, expected ${expected}`;
  }

  private elementWords(tensor: TensorMemory, number: number): string {
    const { name, shape, elements, left_out, in_kernel } = tensor.data;
    const touched = `read ${times(tensor.reads[number]!)}, written ${times(tensor.writes[number]!)} so far`;
    const text = numberText(tensor.shown![number]!, elements!.dtype);
    const { wrong } = this.reader.data;
    const isWrong =
      wrong?.element === number && this.reader.data.arguments[wrong.argument]!.name === name;
    const expected = isWrong ? `, expected ${wrong.expected}` : "";
    if (tensor.isExact)
      return `${name}[${indexOf(shape, number).join(", ")}] = ${text}${expected} · ${touched}`;
    const place = cellWords(shape, elements!.rows, elements!.columns, number);
    return `${name}${place}: ${text} on average · ${touched} · ${this.leftOut().words(left_out, in_kernel)}; trace.memory("${name}", ${this.steps[0]}) has every element`;
  }
}
