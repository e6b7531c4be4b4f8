// The variables after a step: words, and pictures of tiles. Only rows whose value changed are drawn again.
import type { ElementsData, StepValue } from "./data";
import { element } from "./dom";
import type { LeftOut } from "./stepper_left_out";
import { cellWords } from "./stepper_memory";
import { Picture, scaleOf } from "./stepper_picture";
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
  /** What the picture shows. */
  elements: ElementsData | null;
}

const SPACE = 80;

/** What an element of a value is, in words. */
function elementWords(
  reader: TraceReader,
  leftOut: LeftOut,
  name: string,
  value: StepValue | null,
  number: number,
  step: number,
): string {
  const elements = value === null ? null : reader.elements(value);
  if (value === null || elements === null) return "";
  const text = numberText(reader.numbers(value)![number]!, elements.dtype);
  if (!elements.averaged) return `${name}[${indexOf(value.shape, number).join(", ")}] = ${text}`;
  const place = cellWords(value.shape, elements.rows, elements.columns, number);
  return `${name}${place}: ${text} on average · ${leftOut.words(value.left_out, value.in_kernel)}; trace.at(${step})["${name}"] has every element`;
}

export class ValuesPane {
  readonly dom = element("div", { class: "kl-values" });
  private readonly changed = element("tbody");
  private readonly body = element("tbody");
  private readonly first: HTMLElement;
  private readonly below = element("div", { class: "kl-soft kl-constants" });
  private readonly rows = new Map<string, Row>();
  private order = "";
  private step = 0;

  /** The numbers of the values in sight. */
  readonly inSight = new Set<number>();

  constructor(
    private readonly reader: TraceReader,
    private readonly leftOut: () => LeftOut,
    private readonly onpoint: (pointed: Pointed | null) => void,
    private readonly onwatch: (name: string) => void,
  ) {
    this.first = element(
      "table",
      { class: "kl-vars kl-vars-changed", "aria-label": "Variables that the step changed" },
      this.changed,
    );
    this.dom.append(
      this.first,
      element(
        "div",
        { class: "kl-rest" },
        element("table", { class: "kl-vars", "aria-label": "Variables" }, this.body),
        this.below,
      ),
    );
  }

  show(number: number): void {
    this.step = number;
    const step = this.reader.step(number);
    const { given } = this.reader.data.frames[step.frame]!;
    const shown: string[] = [];
    const constants: string[] = [];
    this.inSight.clear();
    for (const [name, at] of this.reader.variables(step.frame, number)) {
      const value = this.reader.data.values[at]!;
      if (Object.hasOwn(given, name) && given[name] === at && value.shape.length === 0)
        constants.push(`${name} = ${value.words}`);
      else {
        shown.push(name);
        this.inSight.add(at);
        this.update(name, value, Object.hasOwn(step.changed, name));
      }
    }
    // What the step changed comes first: it is what a reader looks for.
    const [changed, others] = [
      shown.filter((name) => Object.hasOwn(step.changed, name)),
      shown.filter((name) => !Object.hasOwn(step.changed, name)),
    ];
    const order = `${changed.join("\n")}\n\n${others.join("\n")}`;
    if (order !== this.order) {
      this.order = order;
      const focused = (this.dom.getRootNode() as Document | ShadowRoot).activeElement;
      this.changed.replaceChildren(...changed.map((name) => this.rows.get(name)!.dom));
      this.body.replaceChildren(...others.map((name) => this.rows.get(name)!.dom));
      this.first.hidden = changed.length === 0;
      if (focused instanceof HTMLElement && this.dom.contains(focused))
        focused.focus({ preventScroll: true });
    }
    const words = constants.join(", ");
    if (this.below.textContent !== words) this.below.textContent = words;
  }

  private update(name: string, value: StepValue, isNew: boolean): void {
    let row = this.rows.get(name);
    if (row === undefined) this.rows.set(name, (row = this.row(name)));
    if (row.dom.classList.contains("kl-new") !== isNew) row.dom.classList.toggle("kl-new", isNew);
    if (row.value === value && row.elements === this.reader.elements(value)) return;
    row.value = value;
    row.elements = this.reader.elements(value);
    if (row.type.textContent !== value.type) row.type.textContent = value.type;
    row.words.textContent = value.words;
    this.picture(name, row, value);
  }

  private picture(name: string, row: Row, value: StepValue): void {
    const { elements } = row;
    if (elements === null) {
      row.picture = null;
      // Scalars have none either.
      row.holder.replaceChildren(
        ...(value.left_out === ""
          ? []
          : [
              element(
                "span",
                {
                  class: "kl-soft",
                  title: `${value.left_out}; trace.at(${this.step})["${name}"] has every element`,
                },
                "not here",
              ),
            ]),
      );
      return;
    }
    if (
      row.picture === null ||
      row.picture.rows !== elements.rows ||
      row.picture.columns !== elements.columns
    ) {
      const hadFocus = row.picture?.canvas.matches(":focus") ?? false;
      row.picture = new Picture(
        `Elements of ${name}`,
        elements.rows,
        elements.columns,
        countOf(elements, value.shape),
        SPACE,
        (number) => {
          this.onpoint(
            number === null
              ? null
              : () => elementWords(this.reader, this.leftOut(), name, row.value, number, this.step),
          );
        },
      );
      row.holder.replaceChildren(row.picture.dom);
      if (hadFocus) row.picture.canvas.focus();
    }
    row.picture.draw(this.reader.numbers(value), scaleOf(value.type));
  }

  private row(name: string): Row {
    const [type, words, holder] = [
      element("td", { class: "kl-soft" }),
      element("td", { class: "kl-value-words" }),
      element("td"),
    ];
    const watch = element(
      "button",
      {
        type: "button",
        class: "kl-link",
        title: `Watch ${name}`,
        "aria-label": `Watch ${name}`,
        onclick: () => this.onwatch(name),
      },
      "◉",
    );
    const dom = element(
      "tr",
      { "data-name": name },
      element("th", { scope: "row" }, name),
      type,
      words,
      holder,
      element("td", {}, watch),
    );
    return { dom, type, words, holder, picture: null, value: null, elements: null };
  }
}
