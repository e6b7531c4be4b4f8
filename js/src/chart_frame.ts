// Where a chart is shown: what is pointed at by pointer or keys, clicks, and a rectangle that selects what it holds.
import type { Chart, Spot } from "./chart";
import { element } from "./dom";
import { factsOf, STANDING, type TuningState } from "./tuning_state";

export interface ChartEvents {
  /** A config was clicked; `adding` where it is to be added to the selection. */
  click(place: number, adding: boolean): void;
}

/** Pixels that a pointer moves before it draws a rectangle. */
const DRAG = 6;

export class ChartFrame {
  readonly dom = element("div", {
    class: "kl-plot",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "plot",
  });
  private readonly tip = element("div", { class: "kl-tip", hidden: true });
  private readonly box = element("div", { class: "kl-brush", hidden: true });
  private chart: Chart | null = null;
  /** The configs that each mark represents: a cell of a heat map has several. */
  private held = new Map<SVGElement, number[]>();
  private dragged = false;

  constructor(
    private readonly state: TuningState,
    private readonly events: ChartEvents,
  ) {
    this.dom.addEventListener("pointermove", (event) => this.hover(event));
    this.dom.addEventListener("pointerleave", () => this.leave());
    this.dom.addEventListener("pointerdown", (event) => this.press(event));
    this.dom.addEventListener("click", (event) => this.click(event));
    this.dom.addEventListener("keydown", (event) => this.key(event));
    this.dom.addEventListener("blur", () => this.leave());
    state.onchange((what) => {
      if (what === "pointed" || what === "selected") this.relight();
    });
  }

  show(chart: Chart): void {
    this.chart = chart;
    this.held = new Map();
    for (const [place, marks] of chart.marks)
      for (const mark of marks) this.held.set(mark, [...(this.held.get(mark) ?? []), place]);
    this.dom.setAttribute(
      "aria-label",
      `${chart.dom.getAttribute("aria-label")}. Arrow keys go from config to config, Enter opens one.`,
    );
    this.tip.hidden = true;
    this.dom.replaceChildren(chart.dom, this.box, this.tip);
    this.relight();
  }

  /** Words in place of a chart. */
  say(words: string): void {
    this.chart = null;
    this.dom.replaceChildren(element("div", { class: "kl-wait" }, words));
  }

  private relight(): void {
    if (this.chart === null) return;
    const { pointed, selected } = this.state;
    for (const [mark, places] of this.held) {
      mark.classList.toggle("kl-pointed", pointed !== null && places.includes(pointed));
      mark.classList.toggle(
        "kl-selected",
        places.some((place) => selected.includes(place)),
      );
    }
    const spot = this.chart.spots.find((one) => one.place === pointed && pointed !== null);
    if (spot === undefined) this.hideTip();
    else this.showTip(spot);
  }

  // Pointing

  private at(event: MouseEvent): [number, number] {
    const box = this.dom.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  private hover(event: PointerEvent): void {
    const found = this.chart?.find(...this.at(event)) ?? null;
    this.dom.classList.toggle("kl-over", found !== null && found.place !== null);
    this.state.point(found?.place ?? null);
    if (found !== null && found.place === null) this.showTip(found);
    else if (found === null) this.hideTip();
  }

  private leave(): void {
    this.state.point(null);
    this.hideTip();
  }

  private click(event: MouseEvent): void {
    if (this.dragged) return;
    const found = this.chart?.find(...this.at(event));
    if (found == null) this.state.select([]);
    else if (found.place !== null)
      this.events.click(found.place, event.shiftKey || event.ctrlKey || event.metaKey);
  }

  private press(down: PointerEvent): void {
    this.dragged = false;
    if (down.button !== 0 || this.chart === null) return;
    const from = this.at(down);
    const move = (event: PointerEvent): void => {
      const to = this.at(event);
      if (!this.dragged && Math.hypot(to[0] - from[0], to[1] - from[1]) < DRAG) return;
      if (!this.dragged) this.dom.setPointerCapture(down.pointerId);
      this.dragged = true;
      this.brush(from, to);
    };
    const end = (): void => {
      this.dom.removeEventListener("pointermove", move);
      this.box.hidden = true;
    };
    this.dom.addEventListener("pointermove", move);
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"] as const)
      this.dom.addEventListener(name, end, { once: true });
  }

  /** Select what a rectangle holds. */
  private brush(from: readonly [number, number], to: readonly [number, number]): void {
    const [left, top] = [Math.min(from[0], to[0]), Math.min(from[1], to[1])];
    const [width, height] = [Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1])];
    Object.assign(this.box.style, {
      left: `${left}px`,
      top: `${top}px`,
      width: `${width}px`,
      height: `${height}px`,
    });
    this.box.hidden = false;
    const inside = ({ x, y }: Spot): boolean =>
      x >= left && x <= left + width && y >= top && y <= top + height;
    this.state.select(
      this.chart!.spots.flatMap((spot) =>
        spot.place !== null && inside(spot) ? [spot.place] : [],
      ),
    );
  }

  private key(event: KeyboardEvent): void {
    const { chart, state } = this;
    if (chart === null || chart.spots.length === 0) return;
    const at = chart.spots.findIndex((spot) => spot.place !== null && spot.place === state.pointed);
    if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") {
      const last = chart.spots.length - 1;
      const isFirst = event.key === "Home" || (at < 0 && event.key !== "End");
      let next = isFirst ? 0 : event.key === "End" ? last : chart.step(at, event.key);
      const forwards = next >= at;
      while (chart.spots[next]?.place === null) next += forwards ? 1 : -1; // baselines are not configs
      const spot = chart.spots[Math.max(0, Math.min(last, next))];
      if (spot !== undefined && spot.place !== null) state.point(spot.place);
    } else if (event.key === "Enter" && at >= 0) this.events.click(state.pointed!, event.shiftKey);
    else if (event.key === " " && at >= 0) this.events.click(state.pointed!, true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // The words beside what is pointed at

  private hideTip(): void {
    this.tip.hidden = true;
  }

  private showTip(spot: Spot): void {
    this.tip.replaceChildren(
      ...(spot.place === null
        ? [element("div", {}, spot.words ?? "")]
        : this.words(spot.place, spot)),
    );
    this.tip.hidden = false;
    // Above what is pointed at where there is space, so that its neighbors stay in view; else beside it.
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const above = spot.y - height - 14;
    const beside = spot.x + width + 18 > this.dom.clientWidth ? spot.x - width - 14 : spot.x + 14;
    const x =
      above >= 2
        ? Math.min(Math.max(2, spot.x - 40), this.dom.clientWidth - width - 4)
        : Math.max(2, beside);
    const y =
      above >= 2 ? above : Math.max(2, Math.min(spot.y - 20, this.dom.clientHeight - height - 4));
    Object.assign(this.tip.style, { left: `${x}px`, top: `${y}px` });
  }

  private words(place: number, spot: Spot): HTMLElement[] {
    const config = this.state.data.configs[place]!;
    const { mark, words } = STANDING[config.standing];
    const title = element("b", {}, this.state.nameOf(place));
    const facts = factsOf(config).map(([name, value]) =>
      element("div", {}, element("span", { class: "kl-soft" }, name), element("span", {}, value)),
    );
    return [
      ...(spot.words === undefined ? [] : [element("div", {}, spot.words)]),
      title,
      ...(words ? [element("div", { class: "kl-standing" }, `${mark} ${words}`)] : []),
      element("div", { class: "kl-tip-facts" }, ...facts),
    ];
  }
}
