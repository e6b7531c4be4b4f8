// The view of sweeps: plots and table, linked; a click on a config opens its IR, a second one the comparison of both.
import "./tuning.css";
import type { Chart } from "./chart";
import { ChartFrame } from "./chart_frame";
import type { TuningView } from "./data";
import { button, choice, element, onKeys, toolbar } from "./dom";
import { Explorer } from "./explorer";
import { type KernelRequest, Silence } from "./kernel";
import { Openings } from "./openings";
import { isWide, numberWords } from "./scales";
import { copyButton, KeyHelp, radios, turnOn } from "./parts/toolbar";
import { NARROW } from "./narrow";
import { splitter } from "./splitter";
import {
  againstChart,
  heatChart,
  parallelChart,
  resourceChart,
  timesChart,
  type Wishes,
} from "./tuning_charts";
import { sizesChart } from "./tuning_sizes";
import {
  byResource,
  type Change,
  droppedWords,
  levels,
  type Measure,
  RESOURCES,
  ranked,
  spaceOf,
  TuningState,
  valueWords,
} from "./tuning_state";
import { ConfigTable } from "./tuning_table";

/** What the view needs from the place where it is shown. */
export interface TuningHost {
  root: Document | ShadowRoot;
  bytes(part: number): Promise<ArrayBuffer>;
  /** Null where there is no kernel. */
  request: KernelRequest | null;
}

type Plot = "sizes" | "times" | "heatmap" | "parallel" | "resource";

const PLOTS: readonly { value: Plot; words: string; title: string }[] = [
  { value: "sizes", words: "Sizes", title: "Each kernel's fastest config against the size" },
  { value: "times", words: "Times", title: "Every config, the fastest first" },
  {
    value: "heatmap",
    words: "Heat map",
    title: "The fastest config for each two values of two parameters",
  },
  {
    value: "parallel",
    words: "Parallel",
    title: "A line for each config through its values to its time",
  },
  {
    value: "resource",
    words: "Resources",
    title: "Time against occupancy, registers, spills, shared memory",
  },
];

const HELP: readonly (readonly [string, string])[] = [
  ["click Enter", "a config's IR"],
  ["Shift+click Space", "select it as well; two are compared"],
  ["← → ↑ ↓", "from config to config, in the plot or the table"],
  ["drag", "select what is in a rectangle"],
  ["Esc", "back from the IR; select nothing"],
  ["?", "these keys"],
];

export class TuningExplorer {
  private readonly state: TuningState;
  private readonly openings: Openings;
  private readonly frame: ChartFrame;
  private readonly table: ConfigTable;
  private readonly plots: readonly Plot[];
  private plot: Plot;
  private resource: string;
  private unit = 0;
  private across = "";
  private down = "";
  /** The baseline of whose speed times are shown as percents; "" for microseconds. */
  private against = "";
  /** Whether times are on a logarithmic axis; null until the reader says. */
  private log: boolean | null = null;
  private tabs = element("span");
  private readonly options = element("span", { class: "kl-group" });
  private readonly filters = toolbar("Filters");
  private readonly head = element("div", { class: "kl-head" });
  private readonly words = element("div", { class: "kl-general kl-words" });
  private readonly answer = element("div", { class: "kl-answer" });
  private readonly top = element("div", {}, this.answer, this.head);
  private readonly help: KeyHelp;
  /** What is selected. It is always there: a plot that changed its height with the selection would run away from a rectangle. */
  private readonly chosen = element("div", { class: "kl-chosen-configs", role: "status" });
  private readonly main: HTMLElement;
  private readonly overview: HTMLElement;
  private readonly opened = element("div", { class: "kl-opened", hidden: true });
  private explorer: Explorer | null = null;
  /** Counts the requests: the answer to an earlier question comes too late. */
  private requested = 0;
  private ticking: ReturnType<typeof setInterval> | undefined;
  private readonly resized: ResizeObserver;
  private frameRequest = 0;

  constructor(
    private readonly dom: HTMLElement,
    private readonly data: TuningView,
    private readonly host: TuningHost,
  ) {
    this.state = new TuningState(data);
    this.openings = new Openings(data, host.bytes, host.request);
    const click = (place: number, adding: boolean): void => this.click(place, adding);
    this.frame = new ChartFrame(this.state, { click });
    this.table = new ConfigTable(this.state, {
      click,
      isHere: (place) => this.openings.isHere(place),
    });
    this.plots = this.offered();
    const isResource = RESOURCES.some(({ name }) => name === data.plot);
    this.resource = isResource ? data.plot : (this.resources()[0] ?? "registers");
    const wanted = isResource ? "resource" : (data.plot as Plot);
    this.plot = this.plots.includes(wanted) ? wanted : (this.plots[0] ?? "times");
    const plots = this.plots.map((_, at) => String(at + 1)).join(" ");
    const help =
      this.plots.length > 1
        ? [...HELP.slice(0, -2), [plots, "the plots"] as const, ...HELP.slice(-2)]
        : HELP;
    this.help = new KeyHelp(help);
    this.main = element(
      "div",
      { class: "kl-main kl-tuning-main" },
      this.frame.dom,
      splitter("Width of the plot"),
      this.table.dom,
    );
    this.overview = element(
      "div",
      { class: "kl-overview" },
      this.plotTools(),
      this.help.dom,
      this.filters,
      this.main,
      this.chosen,
      this.words,
    );
    dom.append(this.top, this.overview, this.opened);
    dom.classList.toggle("kl-no-plots", this.plots.length === 0);
    this.frame.dom.hidden = this.plots.length === 0;
    this.main.querySelector<HTMLElement>(".kl-splitter")!.hidden = this.plots.length === 0;
    this.state.onchange((what) => this.changed(what));
    onKeys(dom, (event) => this.key(event));
    // The explorer keeps its keys to itself, so the way back is looked for on their way down.
    dom.addEventListener("keydown", (event) => this.escape(event), { capture: true });
    this.resized = new ResizeObserver(() => this.redrawSoon());
    this.resized.observe(this.frame.dom);
    this.resized.observe(this.table.dom);
    this.drawAll();
  }

  destroy(): void {
    this.resized.disconnect();
    cancelAnimationFrame(this.frameRequest);
    clearInterval(this.ticking);
    this.explorer?.destroy();
  }

  // What there is to choose from

  private offered(): Plot[] {
    const untimed = this.state.entries.every(({ config }) => config.us === null);
    if (untimed)
      return this.resources().length > 0 && this.data.configs.length > 1 ? ["resource"] : [];
    return PLOTS.map(({ value }) => value).filter(
      (plot) => plot !== "sizes" || this.data.sizes.length > 0,
    );
  }

  private resources(): string[] {
    return RESOURCES.filter((resource) => byResource(this.state.all, resource).length > 0).map(
      ({ name }) => name,
    );
  }

  private plotTools(): HTMLElement {
    const offered = PLOTS.filter(({ value }) => this.plots.includes(value));
    this.tabs = radios("Plot", offered, (plot) => this.setPlot(plot));
    return toolbar(
      "Plots",
      ...(this.plots.length > 1 ? [this.tabs] : []),
      this.options,
      element("span", { class: "kl-space" }),
      this.help.button,
    );
  }

  private setPlot(plot: Plot): void {
    this.plot = plot;
    this.log = null;
    this.drawPlot();
  }

  // Drawing

  private changed(what: Change): void {
    if (what === "shown") this.drawAll();
    if (what === "selected") this.drawChosen();
    if (
      what === "pointed" &&
      this.state.pointed !== null &&
      this.frame.dom.matches(":focus, :hover")
    )
      this.table.reveal(this.state.pointed);
  }

  private drawAll(): void {
    this.drawHead();
    this.drawFilters();
    this.drawPlot();
    this.drawChosen();
  }

  private drawHead(): void {
    const { data, state } = this;
    const { current } = state;
    const several = data.sweeps.length > 1;
    const sweeps = choice(
      "Sweep",
      data.sweeps.map(({ name }, at) => ({ value: String(at), words: name })),
      String(state.sweep),
      (value) => state.choose(Number(value)),
    );
    this.head.replaceChildren(
      element("b", {}, data.title),
      element(
        "span",
        { class: "kl-soft" },
        `${current.machine}${several ? "" : `; ${current.launch}`}`,
      ),
      ...(several ? [sweeps] : []),
    );
    this.answer.replaceChildren(
      element("span", {}, current.answer.replaceAll(" %", "\u00a0%")),
      ...(current.space === "" ? [] : this.measureThese(current.space)),
    );
    this.answer.hidden = current.answer === "";
    const none = this.openings.whyNone();
    this.words.replaceChildren(
      ...[...data.notes, ...current.words, ...(none === null ? [] : [none])].map((line) =>
        element("div", {}, line),
      ),
    );
    this.words.hidden = this.words.childElementCount === 0;
  }

  /** The way from estimates to times: the configs to measure, to be pasted where there is a GPU. */
  private measureThese(space: string): HTMLElement[] {
    const count = this.state.all.filter(({ config }) => config.standing === "candidate").length;
    return [
      element("span", { class: "kl-soft" }, `★ Measure these ${count} on a GPU:`),
      copyButton(
        "Copy space",
        `Copy tuning.candidates(${count}): kernellab.tune(..., space=space) measures them on a GPU`,
        () => space,
      ),
    ];
  }

  private drawFilters(): void {
    const { state } = this;
    const { varying, parameters } = state.current;
    this.filters.replaceChildren(
      ...varying.map((name) => {
        const values = levels(state.all, parameters.indexOf(name));
        const chosen = state.filters.has(name)
          ? String(values.indexOf(state.filters.get(name)!))
          : "";
        const options = [
          { value: "", words: "all" },
          ...values.map((value, at) => ({ value: String(at), words: valueWords(value) })),
        ];
        const made = choice(
          `Show only configs with one value of ${name}`,
          options,
          chosen,
          (value) => {
            state.filter(name, value === "" ? undefined : values[Number(value)]!);
            this.filters
              .querySelector<HTMLElement>(`[data-parameter="${CSS.escape(name)}"]`)
              ?.focus();
          },
        );
        made.dataset["parameter"] = name;
        return element("label", { class: `kl-group${chosen ? " kl-filtered" : ""}` }, name, made);
      }),
    );
    if (state.filters.size > 0)
      this.filters.append(
        button("show all", "Take all filters away", () => {
          state.filters.clear();
          state.notify("shown");
        }),
      );
    this.filters.classList.add("kl-filters");
    this.filters.hidden = varying.length === 0;
  }

  private redrawSoon(): void {
    cancelAnimationFrame(this.frameRequest);
    this.frameRequest = requestAnimationFrame(() => {
      this.dom.classList.toggle("kl-narrow", this.dom.clientWidth < NARROW);
      this.drawPlot();
      this.table.freeze();
    });
  }

  private drawPlot(): void {
    turnOn(this.tabs, this.plot);
    if (this.plots.length === 0) return;
    this.drawOptions();
    const [width, height] = [this.frame.dom.clientWidth, this.frame.dom.clientHeight];
    if (width < 40 || height < 40) return;
    const us = this.state.current.baselines[this.against];
    const against = us === undefined ? null : { name: this.against, us };
    const found = this.chart({ width, height, log: this.isLog(), against });
    if (typeof found === "string") this.frame.say(found);
    else this.frame.show(found);
  }

  private chart(wishes: Wishes): Chart | string {
    const { state } = this;
    if (this.plot === "sizes") return sizesChart(this.data.sizes[this.unit]!, wishes);
    if (this.plot === "resource" && state.ranked.length === 0)
      return resourceChart(state, this.measure, wishes);
    if (state.ranked.length === 0)
      return "Nothing of this sweep was timed: there is nothing to draw.";
    if (this.plot === "times") return timesChart(state, wishes);
    if (this.plot === "parallel") return parallelChart(state, wishes);
    if (this.plot === "resource") return againstChart(state, this.measure, wishes);
    const [across, down] = this.axes();
    if (down === undefined)
      return `A heat map needs two parameters that vary, and here ${across ?? "nothing"} does.`;
    const { parameters } = state.current;
    return heatChart(state, parameters.indexOf(across!), parameters.indexOf(down), wishes);
  }

  private get measure(): Measure {
    return RESOURCES.find(({ name }) => name === this.resource)!;
  }

  /** The parameters of the heat map; at first those two with the most values. */
  private axes(): string[] {
    const { varying, parameters } = this.state.current;
    const count = (name: string): number =>
      levels(this.state.ranked, parameters.indexOf(name)).length;
    const free = [...varying].filter((name) => count(name) > 1).sort((a, b) => count(b) - count(a));
    if (!free.includes(this.across)) this.across = free.find((name) => name !== this.down) ?? "";
    if (!free.includes(this.down) || this.down === this.across)
      this.down = free.find((name) => name !== this.across) ?? "";
    return [this.across, this.down].filter(Boolean);
  }

  private isLog(): boolean {
    if (this.log !== null) return this.log;
    if (this.plot === "sizes") return this.data.sizes[this.unit]!.unit === "us";
    return isWide(ranked(this.state.all).map(({ config }) => config.us!));
  }

  private drawOptions(): void {
    const focused =
      this.host.root.activeElement instanceof HTMLElement
        ? this.host.root.activeElement.getAttribute("aria-label")
        : null;
    const pick = (
      label: string,
      values: readonly string[],
      chosen: string,
      then: (value: string) => void,
      words = (value: string): string => value,
    ): HTMLElement =>
      choice(
        label,
        values.map((value) => ({ value, words: words(value) })),
        chosen,
        (value) => {
          then(value);
          this.drawPlot();
        },
      );
    const made: (HTMLElement | string)[] = [];
    if (this.plot === "heatmap" && this.axes().length === 2) {
      const { varying } = this.state.current;
      made.push(
        pick("Across", varying, this.across, (name) => {
          if (name === this.down) this.down = this.across;
          this.across = name;
        }),
        "×",
        pick("Down", varying, this.down, (name) => {
          if (name === this.across) this.across = this.down;
          this.down = name;
        }),
      );
    }
    if (this.plot === "resource")
      made.push(
        this.state.ranked.length > 0 ? "time against" : "of each config:",
        pick("Resource", this.resources(), this.resource, (name) => (this.resource = name)),
      );
    const baselines = Object.keys(this.state.current.baselines);
    const timeWords = (name: string): string => (name === "" ? "us" : `% of ${name}`);
    if (this.plot === "times" && baselines.length > 0)
      made.push(
        pick(
          "Times as",
          ["", ...baselines],
          this.against,
          (name) => (this.against = name),
          timeWords,
        ),
      );
    if (this.plot === "sizes")
      made.push(
        pick(
          "Unit",
          this.data.sizes.map(({ unit }) => unit),
          this.data.sizes[this.unit]!.unit,
          (unit) => (this.unit = this.data.sizes.findIndex((one) => one.unit === unit)),
        ),
      );
    if (this.plot !== "heatmap" && (this.plot === "sizes" || this.state.ranked.length > 0)) {
      const box = element("input", {
        type: "checkbox",
        "aria-label": "Logarithmic axis",
        onchange: () => {
          this.log = box.checked;
          this.drawPlot();
        },
      });
      box.checked = this.isLog();
      made.push(element("label", { class: "kl-group" }, box, "logarithmic"));
    }
    this.options.replaceChildren(...made);
    if (focused !== null)
      [...this.options.querySelectorAll<HTMLElement>("[aria-label]")]
        .find((one) => one.getAttribute("aria-label") === focused)
        ?.focus();
  }

  // What is selected, and its IR

  private click(place: number, adding: boolean): void {
    this.state.choose(this.data.configs[place]!.sweep);
    if (adding) this.state.toggle(place);
    else this.state.select([place]);
    this.table.reveal(place);
    const { selected } = this.state;
    if (this.openings.whyNone() !== null) return;
    if ((selected.length === 1 && !adding) || (adding && selected.length === 2))
      this.open(selected);
  }

  private drawChosen(): void {
    this.requested++;
    clearInterval(this.ticking);
    const { selected } = this.state;
    if (selected.length === 0) {
      this.chosen.replaceChildren(element("span", { class: "kl-soft" }, this.invitation()));
      return;
    }
    const configs = selected.map((place) => this.data.configs[place]!);
    const space = spaceOf(this.state.current, configs);
    const words =
      selected.length === 1
        ? [this.state.nameOf(selected[0]!), droppedWords(configs[0]!)].filter(Boolean).join(": ")
        : `${selected.length} configs selected`;
    const more = space.count - selected.length;
    const around =
      selected.length < 2
        ? []
        : [
            element("code", { class: "kl-space-words", title: space.words }, space.words),
            ...(more > 0 ? [element("span", { class: "kl-soft" }, `(${more} more)`)] : []),
            copyButton("Copy", "Copy these options of %%tiletune", () => space.words),
          ];
    const open =
      selected.length > 2 || this.openings.whyNone() !== null
        ? []
        : [
            button(
              selected.length === 1 ? "Open its IR" : "Compare their IR",
              "Open the IR explorer",
              () => this.open(selected),
            ),
          ];
    this.chosen.replaceChildren(
      element("span", {}, words),
      ...around,
      ...open,
      button("Clear", "Select nothing (Esc)", () => this.state.select([])),
    );
  }

  /** What a click is for; where no IR can be had, no one is invited to open it. */
  private invitation(): string {
    const opens = this.openings.whyNone() === null;
    return opens
      ? "Click a config for its IR, Shift+click a second one to compare them."
      : "Click a config to select it, Shift+click another one as well.";
  }

  private open(places: readonly number[]): void {
    const requested = ++this.requested;
    const problem = this.openings.whyNot(places);
    if (problem !== null) return this.say(problem, "kl-problem");
    const numbers = places.map((place) => this.data.configs[place]!.number).join(" and ");
    this.wait(`Waiting for the notebook's kernel to compile config ${numbers}`);
    this.openings
      .open(
        places,
        () =>
          requested === this.requested &&
          this.wait(`The notebook's kernel compiles config ${numbers}, recording every pass`),
      )
      .then(
        (found) => {
          if (requested !== this.requested) return;
          clearInterval(this.ticking);
          this.drawChosen();
          this.showExplorer(
            places,
            (dom) =>
              new Explorer(dom, found.data, { sources: found.sources, root: this.host.root }),
          );
        },
        (error: unknown) => requested === this.requested && this.fail(error),
      );
  }

  private fail(error: unknown): void {
    this.say(
      error instanceof Silence
        ? silent(error.message)
        : String(error instanceof Error ? error.message : error),
      "kl-problem",
    );
  }

  /** What is going on, with the seconds that it takes. */
  private wait(words: string): void {
    clearInterval(this.ticking);
    const begin = performance.now();
    const show = (): void => {
      const seconds = ((performance.now() - begin) / 1000).toFixed(1);
      this.say(
        `${words} … ${seconds} s`,
        "kl-progress",
        button("Cancel", "Do not open it", () => this.drawChosen()),
      );
    };
    show();
    this.ticking = setInterval(show, 200);
  }

  private say(words: string, style: string, ...more: HTMLElement[]): void {
    if (style === "kl-problem") clearInterval(this.ticking);
    const close = button("Close", "Select nothing (Esc)", () => this.state.select([]));
    this.chosen.replaceChildren(
      element("span", { class: style }, words),
      ...(more.length > 0 ? more : [close]),
    );
    if (!this.opened.hidden) this.back();
  }

  private showExplorer(places: readonly number[], make: (dom: HTMLElement) => Explorer): void {
    this.explorer?.destroy();
    const nested = element("div", { class: "kl-nested", tabindex: "-1" });
    const back = button("◀ Back to the sweep", "Back (Esc)", () => this.back());
    const names = places.map((place) =>
      element(
        "span",
        { class: "kl-opened-name", title: this.state.nameOf(place) },
        `${this.nameBeside(place, places)}${this.timeWords(place)}`,
      ),
    );
    this.opened.replaceChildren(
      element(
        "div",
        { class: "kl-tools" },
        back,
        ...names,
        element("span", { class: "kl-space" }),
        this.beside(places),
      ),
      nested,
    );
    this.overview.hidden = this.top.hidden = true;
    this.opened.hidden = false;
    this.explorer = make(nested);
    nested.focus({ preventScroll: true });
  }

  /** A config by the values that distinguish it from those beside it. */
  private nameBeside(place: number, places: readonly number[]): string {
    const config = this.data.configs[place]!;
    const { parameters } = this.state.sweepOf(place);
    const others = places
      .map((other) => this.data.configs[other]!)
      .filter((other) => other !== config && other.sweep === config.sweep);
    const differs = parameters.flatMap((name, at) =>
      others.some((other) => other.values[at] !== config.values[at])
        ? [`${name}=${valueWords(config.values[at] ?? null)}`]
        : [],
    );
    return differs.length > 0
      ? `${config.number}: ${differs.join(", ")}`
      : this.state.nameOf(place);
  }

  private timeWords(place: number): string {
    const { us } = this.data.configs[place]!;
    return us === null ? "" : `, ${numberWords(us)} us`;
  }

  /** The choice of a config to compare with. */
  private beside(places: readonly number[]): HTMLElement {
    const { state } = this;
    const first = places[0]!;
    const order = [...state.ranked, ...state.all.filter(({ config }) => config.us === null)];
    const others = order.filter(
      ({ place }) => place !== first && this.openings.whyNot([place]) === null,
    );
    const options = [
      { value: "", words: "nothing" },
      ...others.map(({ place }) => ({
        value: String(place),
        words: `${this.state.nameOf(place)}${this.timeWords(place)}`,
      })),
    ];
    const made = choice(
      "Compare with",
      options,
      places.length === 2 ? String(places[1]) : "",
      (value) => {
        const chosen = value === "" ? [first] : [first, Number(value)];
        this.state.select(chosen);
        this.open(chosen);
      },
    );
    return element("label", { class: "kl-group kl-beside" }, "compare with", made);
  }

  private back(): void {
    this.explorer?.destroy();
    this.explorer = null;
    this.opened.replaceChildren();
    this.opened.hidden = true;
    this.overview.hidden = this.top.hidden = false;
    this.table.draw(); // what was opened is here now
    this.drawPlot();
    (this.plots.length > 0 ? this.frame.dom : this.dom).focus({ preventScroll: true });
  }

  // Keys

  private escape(event: KeyboardEvent): void {
    if (
      event.key !== "Escape" ||
      (event.target instanceof HTMLElement && event.target.closest(".cm-panel, input, select"))
    )
      return;
    if (!this.opened.hidden) this.back();
    else if (this.state.selected.length > 0) this.state.select([]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private key(event: KeyboardEvent): boolean {
    const plot = this.plots[Number(event.key) - 1];
    if (event.key === "?") this.help.toggle();
    else if (plot !== undefined) this.setPlot(plot);
    else return false;
    return true;
  }
}

function silent(words: string): string {
  return `This config cannot be opened: ${words}. Run the cell again, or write a page that holds the IR: tuning.show(compilations=[...]).to_html("sweep.html").`;
}
