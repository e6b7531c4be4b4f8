// The variables after a step: words, and pictures of tiles. Only rows whose value changed are drawn again.
import type { StepValue } from "./data";
import { element } from "./dom";
import { Picture } from "./stepper_picture";
import { countOf, indexOf, numberText, type TraceReader } from "./stepper_trace";

/** Something to be pointed at: says what an element is now. */
export type Pointed = () => string;

interface Row {
  dom: HTMLElement;
  type: HTMLElement;
  words: HTMLElement;
  holder: HTMLElement;
  picture: Picture | null;
  value: StepValue | null;
}

const ROOM = 80;

/** What an element of a value is, in words. */
export function elementWords(reader: TraceReader, name: string, value: StepValue | null, number: number, step: number): string {
  const elements = value?.elements ?? null;
  if (value === null || elements === null) return "";
  const numbers = reader.numbers(value)!;
  const text = numberText(numbers[number]!, elements.dtype);
  if (elements.averaged) return `${text} on average hereabouts; this view has a small picture of ${name}, trace.at(${step})["${name}"] every element`;
  return `${name}[${indexOf(value.shape, number).join(", ")}] = ${text}`;
}

export class ValuesPane {
  readonly dom = element("div", { class: "kl-values" });
  private readonly body = element("tbody");
  private readonly below = element("div", { class: "kl-soft kl-constants" });
  private readonly rows = new Map<string, Row>();
  private order = "";
  private step = 0;

  constructor(private readonly reader: TraceReader, private readonly onpoint: (pointed: Pointed | null) => void, private readonly onwatch: (name: string) => void) {
    this.dom.append(element("table", { class: "kl-vars", "aria-label": "Variables" }, this.body), this.below);
  }

  show(number: number): void {
    this.step = number;
    const step = this.reader.step(number);
    const { given } = this.reader.data.frames[step.frame]!;
    const shown: string[] = [];
    const constants: string[] = [];
    for (const [name, at] of this.reader.variables(step.frame, number)) {
      const value = this.reader.data.values[at]!;
      if (Object.hasOwn(given, name) && given[name] === at && value.shape.length === 0) constants.push(`${name} = ${value.words}`);
      else {
        shown.push(name);
        this.update(name, value, Object.hasOwn(step.changed, name));
      }
    }
    const order = shown.join("\n");
    if (order !== this.order) {
      this.order = order;
      this.body.replaceChildren(...shown.map((name) => this.rows.get(name)!.dom));
    }
    const words = constants.join(", ");
    if (this.below.textContent !== words) this.below.textContent = words;
  }

  private update(name: string, value: StepValue, isNew: boolean): void {
    let row = this.rows.get(name);
    if (row === undefined) this.rows.set(name, (row = this.row(name)));
    if (row.dom.classList.contains("kl-new") !== isNew) row.dom.classList.toggle("kl-new", isNew);
    if (row.value === value) return;
    row.value = value;
    if (row.type.textContent !== value.type) row.type.textContent = value.type;
    row.words.textContent = value.words;
    this.picture(name, row, value);
  }

  private picture(name: string, row: Row, value: StepValue): void {
    const { elements } = value;
    if (elements === null) {
      row.picture = null;
      row.holder.replaceChildren();
      return;
    }
    if (row.picture === null || row.picture.rows !== elements.rows || row.picture.columns !== elements.columns) {
      row.picture = new Picture(`Elements of ${name}`, elements.rows, elements.columns, countOf(elements, value.shape), ROOM, (number) => {
        this.onpoint(number === null ? null : () => elementWords(this.reader, name, row.value, number, this.step));
      });
      row.holder.replaceChildren(row.picture.dom);
    }
    row.picture.draw(this.reader.numbers(value));
  }

  private row(name: string): Row {
    const [type, words, holder] = [element("td", { class: "kl-soft" }), element("td", { class: "kl-value-words" }), element("td")];
    const watch = element("button", { type: "button", class: "kl-link", title: `Watch ${name}`, "aria-label": `Watch ${name}`, onclick: () => this.onwatch(name) }, "◉");
    const dom = element("tr", { "data-name": name }, element("th", { scope: "row" }, name), type, words, holder, element("td", {}, watch));
    return { dom, type, words, holder, picture: null, value: null };
  }
}
