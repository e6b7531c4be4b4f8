// The stepper: a recorded trace, step by step, forwards and backwards; it needs no kernel.
import "./stepper.css";
import type { StepData, StepperView } from "./data";
import { button, choice, element, onKeys, statusLine, toolbar } from "./dom";
import { KeyHelp } from "./parts/toolbar";
import { onTheme } from "./theme";
import type { KernelRequest } from "./kernel";
import { followWidth } from "./narrow";
import type { At, Beside, Seen } from "./tabs";
import { Track } from "./parts/track";
import { Clock, inFlight, rowsOf } from "./stepper_clock";
import { GridMap } from "./stepper_grid";
import { LeftOut } from "./stepper_left_out";
import { Player } from "./stepper_player";
import { SourcePane } from "./stepper_source";
import { TensorsPane } from "./stepper_tensors";
import { TraceReader } from "./stepper_trace";
import { type Pointed, ValuesPane } from "./stepper_values";
import { WatchList } from "./stepper_watch";
import { splitter } from "./splitter";

const HELP: readonly (readonly [string, string])[] = [
  ["Space", "play, or stop"],
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

/** Operations in flight that are listed one by one. */
const MOST_FLIGHTS = 40;

export class StepperExplorer implements Seen {
  private readonly reader: TraceReader;
  private readonly unit: string;
  private clock: Clock;
  /** Where the clock is, the lane that is shown, and the step that is there. */
  private place = 0;
  private lane = 0;
  private at = 0;
  private drawn = "";
  private frame = 0;
  private readonly variable: HTMLSelectElement;
  private readonly tensor: HTMLSelectElement;
  private readonly source: SourcePane;
  private readonly values: ValuesPane;
  private readonly tensors: TensorsPane;
  private readonly watch: WatchList;
  private readonly map: GridMap;
  private readonly leftOut: LeftOut;
  private readonly track: Track;
  private readonly player: Player;
  private readonly number: HTMLInputElement;
  private readonly where = element("div", { class: "kl-where" });
  private readonly accesses = element("div", { class: "kl-accesses kl-soft" });
  private readonly flights = element("div", { class: "kl-flights" });
  private readonly help = new KeyHelp(HELP);
  private readonly status = statusLine();
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
    this.clock = new Clock(reader, false);
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
    this.track = new Track(
      `Number of the ${this.unit}`,
      (place) => this.goToPlace(place),
      (lane) => this.chooseLane(lane),
    );
    this.player = new Player((isStart) => this.playOn(isStart));
    this.number = element("input", {
      type: "number",
      class: "kl-input kl-number-box",
      "aria-label": `Go to ${this.unit}`,
      min: reader.first,
      max: Math.max(reader.first, reader.last),
      value: data.focus,
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
    dom.append(this.head(), ...this.notes());
    this.theme = onTheme(dom, () => {
      this.map.draw();
      this.track.draw();
    });
    this.width = followWidth(dom);
    if (reader.isEmpty) {
      dom.append(element("div", { class: "kl-wait" }, "There are no steps."));
      return;
    }
    dom.append(this.moves(), this.searches(), this.help.dom, this.main(), this.status);
    this.showTrack();
    onKeys(dom, (event) => this.key(event));
    this.place = this.at = Math.min(Math.max(data.focus, reader.first), reader.last);
    this.draw();
  }

  destroy(): void {
    this.theme.disconnect();
    this.width.disconnect();
    this.source.destroy();
    this.leftOut.destroy();
    this.values.destroy();
    this.track.destroy();
    this.player.stop();
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
    return toolbar(
      "Steps",
      this.player.button,
      this.player.speed,
      element(
        "span",
        { class: "kl-group" },
        button("|◀", "First (Home)", () => this.goTo(reader.first)),
        button("◀", "One back (←)", () => this.goToPlace(this.place - 1)),
        button("▶", "One on (→)", () => this.goToPlace(this.place + 1)),
        button("▶|", "Last (End)", () => this.goTo(reader.last)),
      ),
      element("span", { class: "kl-group" }, this.unit, this.number, ` of ${this.range()}`),
      ...(this.data.fault_step === null
        ? []
        : [button("✖ fault", "Go to the fault", () => this.goTo(this.data.fault_step!))]),
      ...(this.data.programs.length > 1 ? [this.togetherButton()] : []),
      this.track.dom,
    );
  }

  private togetherButton(): HTMLButtonElement {
    const made = button("together", "Every program's k-th step at once", () => {
      const isTogether = !this.clock.isTogether;
      made.setAttribute("aria-pressed", String(isTogether));
      this.clock = new Clock(this.reader, isTogether);
      this.showTrack();
      this.goTo(this.at);
    });
    made.setAttribute("aria-pressed", "false");
    return made;
  }

  private showTrack(): void {
    const { clock } = this;
    this.track.show(clock.lanes(), clock.first, clock.last, rowsOf(this.reader, clock));
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
    return toolbar(
      "Searches",
      pair("change of", "change", (forwards) => this.seekChange(forwards), this.variable),
      pair("access to", "access", (forwards) => this.seekAccess(forwards), this.tensor),
      pair("run", "breakpoint", (forwards) => this.run(forwards)),
      this.watch.head,
      element("span", { class: "kl-space" }),
      this.help.button,
    );
  }

  private main(): HTMLElement {
    const left = element("div", { class: "kl-steps-left" }, this.source.dom, this.map.dom);
    const right = element(
      "div",
      { class: "kl-steps-right" },
      this.where,
      this.accesses,
      this.flights,
      this.watch.dom,
      element("div", { class: "kl-state" }, this.values.dom, this.tensors.dom),
      legend(),
    );
    return element("div", { class: "kl-main" }, left, splitter("Width of the source"), right);
  }

  // From step to step

  private goTo(number: number): void {
    if (Number.isNaN(number)) return;
    const step = Math.min(Math.max(Math.round(number), this.reader.first), this.reader.last);
    this.lane = this.clock.laneOf(step);
    this.goToPlace(this.clock.placeOf(step));
  }

  /** The reader chose a place: what plays stops. */
  private goToPlace(place: number): void {
    this.player.stop();
    this.moveTo(place);
  }

  private moveTo(place: number): void {
    this.place = Math.min(Math.max(place, this.clock.first), this.clock.last);
    this.at = this.clock.stepAt(this.lane, this.place);
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  /** Another program's variables and line. */
  private chooseLane(lane: number): void {
    this.lane = lane;
    this.moveTo(this.place);
  }

  /** A step of what plays: whether there is more; from the end it begins anew. */
  private playOn(isStart = false): boolean {
    const isAtEnd = this.place === this.clock.last;
    if (isAtEnd && !isStart) return false;
    this.moveTo(isAtEnd ? this.clock.first : this.place + 1);
    return isStart || !this.isStop(this.reader.step(this.at), this.at);
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
    this.seek(forwards, (step, number) => this.isStop(step, number), "is at a breakpoint");
  }

  private isStop(step: StepData, number: number): boolean {
    return (
      this.source.hasBreakpoint(this.data.frames[step.frame]!.source, step.line) ||
      this.watch.isStop(number)
    );
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

  private key(event: KeyboardEvent): boolean {
    if (event.key === " " && event.target instanceof HTMLButtonElement) return false;
    const { reader } = this;
    const actions: Record<string, () => void> = {
      " ": () => this.player.toggle(),
      ArrowLeft: () => this.goToPlace(this.place - 1),
      ArrowRight: () => this.goToPlace(this.place + 1),
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
      "?": () => this.help.toggle(),
      b: () => this.breakHere(),
    };
    const action = actions[event.key];
    action?.();
    return action !== undefined;
  }

  private breakHere(): void {
    const { source } = this.reader.frame(this.at);
    if (source !== null) this.source.toggle(source, this.reader.step(this.at).line);
  }

  // Drawing

  private draw(): void {
    this.frame = 0;
    const [step, frame] = [this.reader.step(this.at), this.reader.frame(this.at)];
    const words = `${this.unit} ${this.at} of ${this.range()}, line ${step.line}`;
    this.track.moveTo(this.place, words, this.lane);
    // What came late is drawn at the same step: then a number that is being written stays.
    const key = `${this.at} ${this.place}`;
    if (this.drawn !== key) this.number.value = String(this.at);
    this.drawn = key;
    this.map.show(frame.program); // before the source, which it leaves the rest of the height
    const steps = this.clock.steps(this.place);
    const title = `${frame.function} · ${frame.place}`;
    this.source.show(frame.source, step.line, title, this.others(steps, frame.source, step.line));
    const isFault = this.data.fault_step === this.at;
    const where = [
      `line ${step.line}`,
      ...(isFault ? ["the fault"] : []),
      ...(frame.partition ? [`partition ${frame.partition}`] : []),
      ...(step.operation ? [step.operation] : []),
      ...this.reader.calls(step.frame).map((place) => `called from ${place}`),
      ...step.turns,
    ];
    this.where.textContent = this.where.title = where.join(" · ");
    this.where.classList.toggle("kl-at-fault", isFault);
    const accesses = step.accesses.map((one) => one.words).join(" · ");
    this.accesses.textContent = this.accesses.title = accesses || "no access";
    this.drawFlights();
    this.tensors.show(this.clock.order, this.clock.count(this.place), steps);
    this.values.show(this.at);
    this.watch.show(this.at);
    this.leftOut.look([...this.values.inSight, ...this.watch.inSight(this.at)]);
    this.status.textContent = this.pointed === null ? this.late : this.pointed();
    this.late = "";
  }

  private drawFlights(): void {
    const { flights } = this.reader.data;
    this.flights.hidden = flights.length === 0;
    const now = inFlight(this.reader, this.at);
    const count = now.filter(({ words }) => !words.startsWith("complete")).length;
    const more = now.length - MOST_FLIGHTS;
    this.flights.replaceChildren(
      element("div", { class: "kl-soft" }, `${count} operation${count === 1 ? "" : "s"} in flight`),
      ...now
        .slice(0, MOST_FLIGHTS)
        .map(({ words, issued }) =>
          button(words, `${words}: go to ${this.unit} ${issued}, which issued it`, () =>
            this.goTo(issued),
          ),
        ),
      ...(more > 0
        ? [element("div", { class: "kl-soft" }, `and ${more.toLocaleString("en")} more`)]
        : []),
    );
  }

  /** The lines of a source at which other programs are, with their names. */
  private others(
    steps: readonly number[],
    source: number | null,
    line: number,
  ): Map<number, string> {
    const found = new Map<number, string>();
    for (const number of steps) {
      const [step, frame] = [this.reader.step(number), this.reader.frame(number)];
      if (frame.source !== source || step.line === line) continue;
      const names = found.get(step.line);
      found.set(
        step.line,
        `${names === undefined ? "" : `${names} `}(${frame.program.join(", ")})`,
      );
    }
    return found;
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
    entry("scale", "low to high"),
    entry("zero", "zero"),
    entry("nan", "NaN"),
    entry("infinite", "infinite"),
    entry("read", "read now"),
    entry("written", "written now"),
    entry("faint", "not touched yet"),
  );
}
