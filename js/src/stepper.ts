// The stepper: a recorded trace, step by step, forwards and backwards; it needs no kernel.
import "./stepper.css";
import type { StepData, StepperView } from "./data";
import { button, choice, element } from "./dom";
import type { KernelRequest } from "./kernel";
import { followWidth } from "./narrow";
import type { At, Beside, Seen } from "./tabs";
import { GridMap } from "./stepper_grid";
import { LeftOut } from "./stepper_left_out";
import { SourcePane } from "./stepper_source";
import { TensorsPane } from "./stepper_tensors";
import { TraceReader } from "./stepper_trace";
import { type Pointed, ValuesPane } from "./stepper_values";
import { WatchList } from "./stepper_watch";
import { splitter } from "./splitter";

const HELP: readonly (readonly [string, string])[] = [
  ["← →", "a step back, a step on"],
  ["↑ ↓", "the same, over what helpers do"],
  ["Home End", "first, last step"],
  ["p n", "previous, next change of the chosen variable"],
  ["[ ]", "previous, next access to the chosen tensor"],
  ["r R", "run to a breakpoint, back to one"],
  ["b", "breakpoint at this line, or none"],
  ["↑ ↓ Enter", "in the source: choose a line, run to it (with shift: back to it)"],
  ["?", "these keys"],
];

export class StepperExplorer implements Seen {
  private readonly reader: TraceReader;
  private readonly unit: string;
  private at = 0;
  private drawn = -1;
  private frame = 0;
  private readonly variable: HTMLSelectElement;
  private readonly tensor: HTMLSelectElement;
  private readonly source: SourcePane;
  private readonly values: ValuesPane;
  private readonly tensors: TensorsPane;
  private readonly watch: WatchList;
  private readonly map: GridMap;
  private readonly leftOut: LeftOut;
  private readonly scrubber: HTMLInputElement;
  private readonly number: HTMLInputElement;
  private readonly where = element("div", { class: "kl-where" });
  private readonly accesses = element("div", { class: "kl-accesses kl-soft" });
  private readonly scrolled = element("div", { class: "kl-steps-scrolled" });
  private readonly help: HTMLElement;
  private readonly status = element("div", {
    class: "kl-status",
    role: "status",
    "aria-live": "polite",
  });
  private readonly theme: MutationObserver;
  private readonly width: ResizeObserver;
  private pointed: Pointed | null = null;
  /** What is to be said once the step is drawn. */
  private late = "";

  constructor(
    dom: HTMLElement,
    private readonly data: StepperView,
    numbers: ArrayBuffer,
    request: KernelRequest | null,
    private readonly beside: Beside,
  ) {
    this.reader = new TraceReader(data, numbers);
    const { reader } = this;
    this.unit = data.unit;
    const point = (pointed: Pointed | null): void => this.point(pointed);
    this.source = new SourcePane(data.sources, {
      runTo: (source, line, forwards) =>
        this.seek(forwards, (step) => reader.isAt(step, source, line), `runs line ${line}`),
      toggled: (source, line, isOn) => this.say(isOn ? this.breakpointWords(source, line) : ""),
    });
    const leftOut = (): LeftOut => this.leftOut;
    this.values = new ValuesPane(reader, leftOut, point, (name) => this.watch.add(name));
    this.tensors = new TensorsPane(reader, leftOut, point);
    this.leftOut = new LeftOut(
      reader,
      request,
      () => this.draw(),
      (number, whole) => {
        this.tensors.fill(number, whole);
        this.draw();
      },
    );
    this.watch = new WatchList(
      reader,
      () => this.draw(),
      (words) => this.say(words),
    );
    this.map = new GridMap(data, (program) => this.goToProgram(program));
    const range = {
      min: reader.first,
      max: Math.max(reader.first, reader.last),
      value: data.focus,
    };
    this.scrubber = element("input", {
      type: "range",
      class: "kl-scrubber",
      "aria-label": `Number of the ${this.unit}`,
      step: 1,
      ...range,
    });
    this.scrubber.addEventListener("input", () => this.goTo(Number(this.scrubber.value)));
    this.number = element("input", {
      type: "number",
      class: "kl-input kl-number-box",
      "aria-label": `Go to ${this.unit}`,
      ...range,
    });
    this.number.addEventListener("change", () => {
      this.goTo(this.number.valueAsNumber);
      this.number.value = String(this.at); // the chosen number may lie outside
    });
    this.variable = choice(
      "Variable",
      [
        { value: "", words: "any variable" },
        ...reader.names().map((name) => ({ value: name, words: name })),
      ],
      "",
      () => {},
    );
    this.tensor = choice(
      "Tensor",
      [
        { value: "", words: "any memory" },
        ...data.arguments.map(({ name }, place) => ({ value: String(place), words: name })),
      ],
      "",
      () => {},
    );
    this.help = element(
      "div",
      { class: "kl-help", hidden: true },
      ...HELP.map(([keys, words]) =>
        element("div", {}, ...keys.split(" ").map((key) => element("kbd", {}, key)), words),
      ),
    );
    dom.append(this.head(), ...this.notes());
    this.theme = new MutationObserver(() => this.map.draw());
    this.width = followWidth(dom);
    if (reader.isEmpty) {
      dom.append(element("div", { class: "kl-wait" }, "There are no steps."));
      return;
    }
    dom.append(this.moves(), this.searches(), this.help, this.main(), this.status);
    dom.addEventListener("keydown", (event) => this.key(event));
    this.theme.observe(dom, { attributes: true, attributeFilter: ["data-theme", "data-contrast"] });
    this.at = Math.min(Math.max(data.focus, reader.first), reader.last);
    this.draw();
  }

  destroy(): void {
    this.theme.disconnect();
    this.width.disconnect();
    this.source.destroy();
    this.leftOut.destroy();
    cancelAnimationFrame(this.frame);
  }

  turnTo({ program, line, step, finding }: At): boolean {
    const { reader, data } = this;
    const isOf = (one: StepData): boolean =>
      program === undefined || String(data.frames[one.frame]!.program) === String(program);
    if (typeof step === "number") {
      if (!reader.isEmpty) this.goTo(step);
      return reader.isEmpty || step === this.at;
    }
    if (
      finding !== undefined ||
      (Array.isArray(program) && !data.programs.some((one) => String(one) === String(program)))
    )
      return false;
    if (reader.isEmpty || (line === undefined && program === undefined)) return true;
    const now = reader.step(this.at);
    if (isOf(now) && (line === undefined || now.line === line)) return true;
    const found =
      reader.find(
        reader.first - 1,
        true,
        (one) => isOf(one) && (line === undefined || one.line === line),
      ) ?? (line === undefined ? null : reader.find(reader.first - 1, true, isOf));
    if (found !== null) this.goTo(found);
    if (found === null || (line !== undefined && reader.step(found).line !== line))
      this.late =
        found === null
          ? this.notRunWords(program)
          : `No ${this.unit} ${program === undefined ? "here" : `of program (${String(program)})`} runs line ${String(line)}.`;
    if (found === null) this.say(this.late);
    return true;
  }

  here(): At {
    if (this.reader.isEmpty) return {};
    return { line: this.reader.step(this.at).line, program: this.reader.frame(this.at).program };
  }

  private notRunWords(program: unknown): string {
    const why = this.data.fault === "" ? "" : ": a fault stopped the launch before";
    return `Program (${String(program).replaceAll(",", ", ")}) has no ${this.unit}s here${why}.`;
  }

  // What it is made of

  private head(): HTMLElement {
    return element(
      "div",
      { class: "kl-head" },
      element("b", {}, this.data.kernel),
      element("span", { class: "kl-soft" }, this.data.heading),
    );
  }

  private notes(): HTMLElement[] {
    const notes = this.data.notes.map((note) => element("div", { class: "kl-general" }, note));
    return this.data.fault === ""
      ? notes
      : [
          ...notes,
          element(
            "div",
            { class: "kl-failure kl-fault", role: "alert" },
            `stopped by a fault: ${this.data.fault}`,
          ),
        ];
  }

  private moves(): HTMLElement {
    const { reader } = this;
    return element(
      "div",
      { class: "kl-tools", role: "toolbar", "aria-label": "Steps" },
      button("|◀", "First (Home)", () => this.goTo(reader.first)),
      button("◀ back", "One back (←)", () => this.goTo(this.at - 1)),
      button("step ▶", "One on (→)", () => this.goTo(this.at + 1)),
      button("▶|", "Last (End)", () => this.goTo(reader.last)),
      this.scrubber,
      element("span", { class: "kl-group" }, this.unit, this.number, ` of ${this.range()}`),
      ...(this.data.fault_step === null
        ? []
        : [button("✖ fault", "Go to the fault", () => this.goTo(this.data.fault_step!))]),
    );
  }

  /** The numbers that steps have: "0 to 47". */
  private range(): string {
    return `0 to ${Math.max(0, this.data.step_count - 1).toLocaleString("en")}`;
  }

  private searches(): HTMLElement {
    const pair = (
      words: string,
      title: string,
      search: (forwards: boolean) => void,
      ...more: Node[]
    ): HTMLElement =>
      element(
        "span",
        { class: "kl-group" },
        words,
        button("◀", `Previous ${title}`, () => search(false)),
        button("▶", `Next ${title}`, () => search(true)),
        ...more,
      );
    return element(
      "div",
      { class: "kl-tools", role: "toolbar", "aria-label": "Searches" },
      pair("change of", "change", (forwards) => this.seekChange(forwards), this.variable),
      pair("access to", "access", (forwards) => this.seekAccess(forwards), this.tensor),
      pair("run", "breakpoint", (forwards) => this.run(forwards)),
      element("span", { class: "kl-space" }),
      button("?", "Keys", () => this.toggleHelp()),
    );
  }

  private main(): HTMLElement {
    const left = element("div", { class: "kl-steps-left" }, this.source.dom, this.map.dom);
    const memory = element("div", { class: "kl-memory" }, this.accesses, this.tensors.dom);
    this.scrolled.append(this.values.dom, memory, legend());
    const right = element(
      "div",
      { class: "kl-steps-right" },
      this.where,
      this.watch.dom,
      this.scrolled,
    );
    return element("div", { class: "kl-main" }, left, splitter("Width of the source"), right);
  }

  // From step to step

  private goTo(number: number): void {
    if (Number.isNaN(number)) return;
    this.at = Math.min(Math.max(Math.round(number), this.reader.first), this.reader.last);
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  /** Go to the next step of which something holds, or say that there is none. */
  private seek(
    forwards: boolean,
    holds: (step: StepData, number: number) => boolean,
    words: string,
  ): void {
    const found = this.reader.find(this.at, forwards, holds);
    if (found === null) this.say(`No ${forwards ? "later" : "earlier"} ${this.unit} ${words}.`);
    else this.goTo(found);
  }

  private seekChange(forwards: boolean): void {
    const name = this.variable.value;
    this.seek(
      forwards,
      ({ changed }) =>
        name === "" ? Object.keys(changed).length > 0 : Object.hasOwn(changed, name),
      `changes ${name || "a variable"}`,
    );
  }

  private seekAccess(forwards: boolean): void {
    const { value } = this.tensor;
    this.seek(
      forwards,
      ({ accesses }) => accesses.some((one) => value === "" || one.argument === Number(value)),
      `accesses ${value === "" ? "memory" : this.data.arguments[Number(value)]!.name}`,
    );
  }

  private run(forwards: boolean): void {
    const isStop = (step: StepData, number: number): boolean =>
      this.source.hasBreakpoint(this.data.frames[step.frame]!.source, step.line) ||
      this.watch.isStop(number);
    this.seek(forwards, isStop, "is at a breakpoint");
  }

  private breakpointWords(source: number, line: number): string {
    const isReached = this.data.steps.some((step) => this.reader.isAt(step, source, line));
    return isReached
      ? `Running stops at line ${line}.`
      : `No ${this.unit} here runs line ${line}: running will not stop there.`;
  }

  private over(forwards: boolean): void {
    const depth = this.depth(this.reader.step(this.at));
    this.seek(forwards, (step) => this.depth(step) <= depth, "is outside of the helpers");
  }

  private depth(step: StepData): number {
    return this.reader.depths[step.frame]!;
  }

  private goToProgram(program: readonly number[]): void {
    const first = this.reader.firstOf(program);
    if (first !== null) this.goTo(first);
    else if (this.data.programs.some((one) => String(one) === String(program)))
      this.say(this.notRunWords(program));
    else if (this.beside.isLive && this.beside.has("steps")) this.beside.open("steps", { program });
    else
      this.say(
        `Program (${program.join(", ")}) was not traced: %tilestep --program ${program.join(",")} does.`,
      );
  }

  private toggleHelp(): void {
    this.help.hidden = !this.help.hidden;
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation(); // a notebook's command mode has its own keys
    const target = event.composedPath()[0];
    if (
      target instanceof HTMLInputElement &&
      (target.type !== "range" || event.key.startsWith("Arrow"))
    )
      return;
    if (target instanceof HTMLSelectElement) return;
    const { reader } = this;
    const actions: Record<string, () => void> = {
      ArrowLeft: () => this.goTo(this.at - 1),
      ArrowRight: () => this.goTo(this.at + 1),
      ArrowUp: () => this.over(false),
      ArrowDown: () => this.over(true),
      Home: () => this.goTo(reader.first),
      End: () => this.goTo(reader.last),
      p: () => this.seekChange(false),
      n: () => this.seekChange(true),
      "[": () => this.seekAccess(false),
      "]": () => this.seekAccess(true),
      r: () => this.run(true),
      R: () => this.run(false),
      "?": () => this.toggleHelp(),
      b: () => this.breakHere(),
    };
    const action = actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  }

  private breakHere(): void {
    const { source } = this.reader.frame(this.at);
    if (source !== null) this.source.toggle(source, this.reader.step(this.at).line);
  }

  // Drawing

  private draw(): void {
    this.frame = 0;
    const [step, frame] = [this.reader.step(this.at), this.reader.frame(this.at)];
    const text = String(this.at);
    if (this.scrubber.value !== text) this.scrubber.value = text;
    this.scrubber.setAttribute(
      "aria-valuetext",
      `${this.unit} ${this.at} of ${this.range()}, line ${step.line}`,
    );
    // What came late is drawn at the same step: then a number that is being written stays.
    const isOther = this.drawn !== this.at;
    if (isOther) this.number.value = text;
    this.drawn = this.at;
    this.map.show(frame.program); // before the source, which it leaves the rest of the height
    this.source.show(frame.source, step.line, `${frame.function} · ${frame.place}`);
    const isFault = this.data.fault_step === this.at;
    const words = [
      `line ${step.line}`,
      ...(isFault ? ["the fault"] : []),
      ...(step.operation ? [step.operation] : []),
      ...this.reader.calls(step.frame).map((place) => `called from ${place}`),
      ...step.turns,
    ];
    this.where.textContent = words.join(" · ");
    this.where.classList.toggle("kl-at-fault", isFault);
    this.values.show(this.at);
    this.watch.show(this.at);
    this.accesses.textContent = step.accesses.map((one) => one.words).join("\n");
    this.accesses.hidden = step.accesses.length === 0;
    this.tensors.show(this.at);
    // What the step did is on top.
    if (isOther) this.scrolled.scrollTop = 0;
    this.leftOut.look([...this.values.inSight, ...this.watch.inSight(this.at)]);
    this.status.textContent = this.pointed === null ? this.late : this.pointed();
    this.late = "";
  }

  private point(pointed: Pointed | null): void {
    this.pointed = pointed;
    this.status.textContent = pointed === null ? "" : pointed();
  }

  private say(words: string): void {
    this.status.textContent = words;
  }
}

function legend(): HTMLElement {
  const entry = (name: string, words: string): HTMLElement =>
    element("span", {}, element("i", { class: `kl-touch-${name}` }), words);
  return element(
    "div",
    { class: "kl-legend" },
    entry("scale", "smallest to largest"),
    entry("nan", "NaN"),
    entry("infinite", "infinite"),
    entry("read", "read by this step"),
    entry("written", "written by it"),
    entry("faint", "not touched so far"),
  );
}
