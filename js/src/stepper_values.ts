// The variables after a step: words, and pictures of tiles. Only rows whose value changed are drawn again.
import type { ElementsData, StepValue } from "./data";
import { element } from "./dom";
import type { LeftOut } from "./stepper_left_out";
import { reveal } from "./reveal";
import { cellWords } from "./stepper_memory";
import { Picture, scaleOf } from "./stepper_picture";
import { countOf, indexOf, numberText, type TraceReader } from "./stepper_trace";

/** Something to be pointed at: says what an element is now. */
export type Pointed = () => string;

interface Row {
  dom: HTMLElement;
  name: HTMLElement;
  type: HTMLElement;
  words: HTMLElement;
  holder: HTMLElement;
  picture: Picture | null;
  value: StepValue | null;
  /** What the picture shows. */
  elements: ElementsData | null;
}

/** Pixels across and down that a picture takes at most. */
const SPACE = [84, 44] as const;

/** How long, in milliseconds, a value that changed flashes. */
const FLASH = 450;

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
  readonly dom = element("div", { class: "kl-values", role: "group", "aria-label": "Variables" });
  private readonly body = element("tbody");
  private readonly below = element("div", { class: "kl-soft kl-constants" });
  private readonly rows = new Map<string, Row>();
  private readonly flashes = !matchMedia("(prefers-reduced-motion: reduce)").matches;
  private readonly size = new ResizeObserver(() => this.reveal());
  private frame = -1;
  private step = 0;
  /** The last row that the step changed. */
  private last: HTMLElement | null = null;

  /** The numbers of the values in sight. */
  readonly inSight = new Set<number>();

  constructor(
    private readonly reader: TraceReader,
    private readonly leftOut: () => LeftOut,
    private readonly onpoint: (pointed: Pointed | null) => void,
    private readonly onwatch: (name: string) => void,
  ) {
    const table = element("table", { class: "kl-vars", "aria-label": "Variables" }, this.body);
    this.dom.append(table, this.below);
    this.size.observe(this.dom);
  }

  /** Every variable that the function ever has keeps its place from the first step on. */
  show(number: number): void {
    const isOther = this.step !== number;
    this.step = number;
    const { frame, changed } = this.reader.step(number);
    const slots = this.reader.slots(frame);
    const variables = this.reader.variables(frame, number);
    this.inSight.clear();
    for (const [name, first] of slots) {
      const at = variables.get(name);
      const isNew = Object.hasOwn(changed, name);
      if (at === undefined) this.reserve(name, first, this.reader.firstStep(frame, name));
      else {
        this.inSight.add(at);
        this.update(name, this.reader.data.values[at]!, isNew);
      }
    }
    this.arrange(frame, [...slots.keys()]);
    const news = [...slots.keys()].filter((name) => Object.hasOwn(changed, name));
    if (!isOther) return;
    this.last = null;
    for (const name of news) this.flash((this.last = this.rows.get(name)!.dom));
    this.reveal();
  }

  destroy(): void {
    this.size.disconnect();
  }

  private reveal(): void {
    if (this.last !== null) reveal(this.last, this.dom, this.dom.parentElement);
  }

  private arrange(frame: number, names: readonly string[]): void {
    if (frame === this.frame) return;
    this.frame = frame;
    const focused = (this.dom.getRootNode() as Document | ShadowRoot).activeElement;
    this.body.replaceChildren(...names.map((name) => this.rows.get(name)!.dom));
    if (focused instanceof HTMLElement && this.dom.contains(focused))
      focused.focus({ preventScroll: true });
    this.below.textContent = this.reader.constants(frame).join(", ");
  }

  private flash(row: HTMLElement): void {
    if (this.flashes)
      row.animate([{ backgroundColor: "var(--kl-chosen)" }, { backgroundColor: "transparent" }], {
        duration: FLASH,
        easing: "ease-out",
      });
  }

  private known(name: string): Row {
    let row = this.rows.get(name);
    if (row === undefined) this.rows.set(name, (row = this.row(name)));
    return row;
  }

  /** The place of a variable that has no value yet, as large as its first value will be. */
  private reserve(name: string, first: number, step: number): void {
    const row = this.known(name);
    const value = this.reader.data.values[first]!;
    const words = `from step ${step.toLocaleString("en")}`;
    if (row.value === null && row.words.textContent === words) return;
    row.dom.classList.remove("kl-new");
    row.value = null;
    row.elements = this.reader.elements(value);
    row.type.textContent = row.name.title = value.type;
    row.words.textContent = row.words.title = words;
    row.words.classList.add("kl-soft");
    this.picture(name, row, value);
    row.picture?.draw(null, null);
  }

  private update(name: string, value: StepValue, isNew: boolean): void {
    const row = this.known(name);
    if (row.dom.classList.contains("kl-new") !== isNew) row.dom.classList.toggle("kl-new", isNew);
    if (row.value === value && row.elements === this.reader.elements(value)) return;
    row.value = value;
    row.elements = this.reader.elements(value);
    if (row.type.textContent !== value.type) row.type.textContent = row.name.title = value.type;
    row.words.textContent = row.words.title = value.words;
    row.words.classList.remove("kl-soft");
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
    const [title, type, words, holder] = [
      element("th", { scope: "row" }, name),
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
      title,
      type,
      words,
      holder,
      element("td", {}, watch),
    );
    return { dom, name: title, type, words, holder, picture: null, value: null, elements: null };
  }
}
