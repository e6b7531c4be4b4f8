// The tensors of the launch after a step: touched now in orange and blue, never touched so far faint.
import { element } from "./dom";
import type { LeftOut } from "./stepper_left_out";
import { cellWords, TensorMemory, type Whole } from "./stepper_memory";
import { markPixel, Picture, rangeOf, scaleOf } from "./stepper_picture";
import { indexOf, numberText, type TraceReader } from "./stepper_trace";
import type { Pointed } from "./stepper_values";

interface Pane {
  tensor: TensorMemory;
  dom: HTMLElement;
  picture: Picture | null;
  words: HTMLElement;
  version: number;
  /** Whether the step that was drawn last touched it. */
  wasTouched: boolean;
}

const ROOM = 190;

const times = (count: number): string => (count === 0 ? "never" : count === 1 ? "once" : `${count.toLocaleString("en")} times`);

export class TensorsPane {
  readonly dom = element("div", { class: "kl-tensors", role: "group", "aria-label": "Tensors" });
  private readonly panes: Pane[];
  private step = -1;

  constructor(private readonly reader: TraceReader, private readonly leftOut: () => LeftOut, private readonly onpoint: (pointed: Pointed | null) => void) {
    this.panes = reader.data.arguments.map((_, number) => this.pane(new TensorMemory(reader, number), number));
    this.dom.append(...this.panes.map(({ dom }) => dom));
  }

  show(number: number): void {
    const { step: last } = this;
    this.step = number;
    // Going several steps at once may touch any tensor.
    const isFar = Math.abs(number - last) > 1 || last < 0;
    for (const pane of this.panes) {
      pane.tensor.goTo(number);
      const mine = pane.tensor.accesses(number);
      pane.dom.classList.toggle("kl-touched", mine.length > 0);
      const wasTouched = pane.wasTouched || (last >= this.reader.first && pane.tensor.accesses(last).length > 0);
      if (isFar || mine.length > 0 || wasTouched || pane.version !== pane.tensor.version) this.draw(pane, mine);
    }
  }

  /** A kernel sent every element of a tensor. */
  fill(number: number, whole: Whole): void {
    const old = this.panes[number]!;
    const hadFocus = old.picture?.canvas.matches(":focus") ?? false;
    const pane = (this.panes[number] = this.pane(new TensorMemory(this.reader, number, whole), number));
    old.dom.replaceWith(pane.dom);
    if (this.step < 0) return;
    pane.tensor.goTo(this.step);
    this.draw(pane, pane.tensor.accesses(this.step));
    if (hadFocus) pane.picture?.canvas.focus();
  }

  private draw(pane: Pane, mine: ReturnType<TensorMemory["accesses"]>): void {
    const { tensor, picture } = pane;
    pane.wasTouched = mine.length > 0;
    picture?.draw(tensor.shown, scaleOf(tensor.data.type), [tensor.reads, tensor.writes], (pixels) => {
      for (const { places, operation } of mine) {
        if (places !== null) tensor.eachRun(places, (first, count) => {
          for (let at = first; at < first + count; at++) markPixel(pixels, at, operation);
        });
      }
    });
    if (pane.version !== tensor.version) pane.words.textContent = this.rangeWords(tensor);
    pane.version = tensor.version;
  }

  private rangeWords(tensor: TensorMemory): string {
    const { shown, data } = tensor;
    if (!tensor.isExact || shown === null) return `${data.words} at first; neighbours are averaged`;
    const { dtype } = data.elements!;
    let [nans, infinities] = [0, 0];
    for (let at = 0; at < shown.length; at++) {
      const number = Number(shown[at]!);
      if (Number.isNaN(number)) nans++;
      else if (!Number.isFinite(number)) infinities++;
    }
    const [low, high] = rangeOf(shown).map((end) => (dtype === "float32" || dtype === "float64" ? String(Number(end.toPrecision(6))) : numberText(end, dtype)));
    const words = nans === shown.length ? [] : [low === high ? low! : `${low} .. ${high}`];
    if (nans > 0) words.push(`${nans.toLocaleString("en")} NaN`);
    if (infinities > 0) words.push(`${infinities.toLocaleString("en")} infinite`);
    return words.join(", ");
  }

  private pane(tensor: TensorMemory, number: number): Pane {
    const { data } = tensor;
    const words = element("span", {}, tensor.isExact || data.elements === null ? data.words : this.rangeWords(tensor));
    const picture = data.elements === null ? null : new Picture(
      `Elements of ${data.name}`, data.elements.rows, data.elements.columns, tensor.shown!.length, ROOM,
      (place) => this.onpoint(place === null ? null : () => this.elementWords(tensor, place)),
    );
    if (!tensor.isExact) for (const event of ["pointerenter", "focus"]) picture?.canvas.addEventListener(event, () => this.leftOut().lookAtTensor(number));
    const head = element("figcaption", {}, element("b", {}, data.name), " ", element("span", { class: "kl-soft" }, data.type), element("br"), words);
    const dom = element("figure", { "data-name": data.name }, head, picture === null ? element("span", { class: "kl-soft" }, "no elements") : picture.dom);
    return { tensor, dom, picture, words, version: tensor.version, wasTouched: false };
  }

  private elementWords(tensor: TensorMemory, number: number): string {
    const { name, shape, elements, left_out, in_kernel } = tensor.data;
    const touched = `read ${times(tensor.reads[number]!)}, written ${times(tensor.writes[number]!)} so far`;
    const text = numberText(tensor.shown![number]!, elements!.dtype);
    if (tensor.isExact) return `${name}[${indexOf(shape, number).join(", ")}] = ${text} · ${touched}`;
    const place = cellWords(shape, elements!.rows, elements!.columns, number);
    return `${name}${place}: ${text} on average · ${touched} · ${this.leftOut().words(left_out, in_kernel)}; trace.memory("${name}", ${this.step}) has every element`;
  }
}
