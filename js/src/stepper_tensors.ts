// The tensors of the launch after a step: touched now in orange and magenta, never touched so far faint.
import { element } from "./dom";
import type { MemoryReplay, TensorMemory } from "./stepper_memory";
import { markPixel, Picture, rangeOf } from "./stepper_picture";
import { eachRun, indexOf, numberText, type TraceReader } from "./stepper_trace";
import type { Pointed } from "./stepper_values";

interface Pane {
  tensor: TensorMemory;
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

  constructor(private readonly reader: TraceReader, private readonly replay: MemoryReplay, private readonly onpoint: (pointed: Pointed | null) => void) {
    this.panes = replay.tensors.map((tensor) => this.pane(tensor));
  }

  show(number: number): void {
    const { step: last } = this;
    this.step = number;
    this.replay.goTo(number);
    const { accesses } = this.reader.step(number);
    this.panes.forEach((pane, place) => {
      const mine = accesses.filter((one) => one.argument === place);
      // Going several steps at once may touch any tensor.
      const isFar = Math.abs(number - last) > 1 || last < 0;
      if (!isFar && mine.length === 0 && !pane.wasTouched && pane.version === pane.tensor.version && !this.touches(last, place)) return;
      pane.wasTouched = mine.length > 0;
      const { tensor, picture } = pane;
      if (picture !== null) {
        picture.draw(tensor.shown, [tensor.reads, tensor.writes], (pixels) => {
          for (const { places, operation } of mine) {
            if (places !== null) eachRun(this.reader.buffer, this.reader.data.places[places]!, (first, count) => {
              for (let at = first; at < first + count; at++) markPixel(pixels, tensor.cellOf(at), operation);
            });
          }
        });
      }
      if (pane.version !== tensor.version) pane.words.textContent = this.rangeWords(tensor);
      pane.version = tensor.version;
    });
  }

  private touches(number: number, argument: number): boolean {
    return number >= this.reader.first && this.reader.step(number).accesses.some((one) => one.argument === argument);
  }

  private rangeWords(tensor: TensorMemory): string {
    if (tensor.contents === null) return tensor.data.words;
    const { dtype } = tensor.data.elements!;
    let [nans, infinities] = [0, 0];
    for (let at = 0; at < tensor.contents.length; at++) {
      const number = Number(tensor.contents[at]!);
      if (Number.isNaN(number)) nans++;
      else if (!Number.isFinite(number)) infinities++;
    }
    const [low, high] = rangeOf(tensor.contents).map((end) => (dtype === "float32" || dtype === "float64" ? String(Number(end.toPrecision(6))) : numberText(end, dtype)));
    const words = nans === tensor.contents.length ? [] : [low === high ? low! : `${low} .. ${high}`];
    if (nans > 0) words.push(`${nans.toLocaleString("en")} NaN`);
    if (infinities > 0) words.push(`${infinities.toLocaleString("en")} infinite`);
    return words.join(", ");
  }

  private pane(tensor: TensorMemory): Pane {
    const { data } = tensor;
    const words = element("span", {}, data.words);
    const picture = data.elements === null ? null : new Picture(
      `Elements of ${data.name}`, data.elements.rows, data.elements.columns, tensor.shown!.length, ROOM,
      (number) => this.onpoint(number === null ? null : () => this.elementWords(tensor, number)),
    );
    const head = element("figcaption", {}, element("b", {}, data.name), " ", element("span", { class: "kl-soft" }, data.type), element("br"), words);
    this.dom.append(element("figure", { "data-name": data.name }, head, picture === null ? element("span", { class: "kl-soft" }, "no picture") : picture.dom));
    return { tensor, picture, words, version: tensor.version, wasTouched: false };
  }

  private elementWords(tensor: TensorMemory, number: number): string {
    const { name, shape, elements } = tensor.data;
    const touched = `read ${times(tensor.reads[number]!)}, written ${times(tensor.writes[number]!)} so far`;
    if (tensor.contents === null) return `${touched}, elements hereabouts; this view has a small picture of ${name} as it was at first, trace.memory("${name}", ${this.step}) every element`;
    return `${name}[${indexOf(shape, number).join(", ")}] = ${numberText(tensor.contents[number]!, elements!.dtype)} · ${touched}`;
  }
}
