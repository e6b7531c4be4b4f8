// The drawn graph: what of it is on the screen, on a canvas; panned, zoomed, and walked through by keys.
import { button, element } from "./dom";
import { onTheme } from "./theme";
import { type Box, Layout, type Line, type Plan, PADDING, type Point, TITLE } from "./graph_layout";
import {
  type Hull,
  hullPath,
  rightOf,
  type Overlays,
  type Placed,
  type Refusal,
} from "./graph_overlays";
import type { Item, Tree } from "./graph_tree";
import { BLIND_SAFE } from "./palette";

/** The part of a graph that is in sight. */
interface Seen {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export interface CanvasListener {
  /** Elements were chosen; none where the paper was clicked. */
  choose(elements: readonly number[]): void;
  /** A pair that was not fused was clicked. */
  refused(refusal: Refusal): void;
}

const HEIGHT = 36;
const NARROWEST = 74;
const WIDEST = 230;
const SCALES = { least: 0.04, most: 2.5, readable: 0.72, first: 0.9, fitted: 0.46 };
/** How many items are open at first: as many as can be read with all of them in sight. */
const OPEN_AT_FIRST = [70, 40, 20, 0];
/** The width of the edge along which most bytes go, and of the narrowest. */
const WIDTHS = { most: 7, least: 0.8 };
/** The most pixels of the map of all of a graph. */
const MAP = { width: 150, height: 110 };
/** Pixels around the sign of a pair that belong to it. */
const SIGN = 10;
/** Below this scale words cannot be read, and are left out. */
const READABLE = 0.42;
const FONT =
  "12px system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', sans-serif";
const BOLD = `600 ${FONT}`;
const SMALL = `10.5px ui-monospace, Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace`;
/** Milliseconds of work on a layout after which a frame may be painted. */
const SLICE = 24;
/** Pixels that a pointer may move between down and up of a click. */
const STILL = 4;

export class GraphCanvas {
  readonly dom: HTMLElement;
  private readonly tools: HTMLElement;
  private readonly canvas = element("canvas", { tabindex: "0", role: "img" });
  private readonly context = this.canvas.getContext("2d")!;
  private readonly colors = new Map<string, string>();
  private tree: Tree | null = null;
  private layout: Layout | null = null;
  private open = new Set<number>();
  private drawn: Plan = { width: 0, height: 0, boxes: [], lines: [] };
  private at: Point = { x: 0, y: 0 };
  private scale = 1;
  private lit: ReadonlySet<number> = new Set();
  private chosen: ReadonlySet<number> = new Set();
  private overlays: Overlays = { hulls: [], refusals: [] };
  /** The most bytes that an element makes. */
  private mostBytes = 1;
  /** Where the signs of pairs are in the whole graph. */
  private signs: { place: Point; refusal: Refusal }[] = [];
  /** Whether the reader moved or opened something: until then all of the graph stays in sight. */
  private isMoved = false;
  /** How many lit elements each group holds. */
  private litIn = new Map<number, number>();
  private frame = 0;
  /** Which work on the layout is the latest: what comes of an earlier one is dropped. */
  private working = 0;
  private readonly waiting = element("div", {
    class: "kl-graph-wait",
    role: "status",
    hidden: true,
  });
  private readonly size: ResizeObserver;
  private readonly theme: MutationObserver;
  /** What was open, and where one was, in graphs that were shown before. */
  private readonly before = new Map<
    Tree,
    { layout: Layout; open: Set<number>; at: Point; scale: number }
  >();

  constructor(
    private readonly root: HTMLElement,
    private readonly listener: CanvasListener,
  ) {
    this.tools = element(
      "div",
      { class: "kl-graph-tools" },
      button("+", "Larger (+)", () => this.zoom(1.25)),
      button("−", "Smaller (-)", () => this.zoom(0.8)),
      button("Fit", "See all of it (0)", () => this.fit()),
      button("Open all", "Open every group", () => void this.openAll(true)),
      button("Close all", "Close every group", () => void this.openAll(false)),
    );
    this.dom = element("div", { class: "kl-graph-box" }, this.canvas, this.waiting, this.tools);
    this.size = new ResizeObserver(() => {
      if (this.isMoved) this.draw();
      else this.seeAll();
    });
    this.size.observe(this.dom);
    this.theme = onTheme(root, () => {
      this.colors.clear();
      this.draw();
    });
    this.listen();
  }

  destroy(): void {
    this.size.disconnect();
    this.theme.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /** Draw a level's graph. */
  show(tree: Tree, words: string, overlays: Overlays): void {
    if (this.tree !== null && this.layout !== null)
      this.before.set(this.tree, {
        layout: this.layout,
        open: this.open,
        at: this.at,
        scale: this.scale,
      });
    const known = this.before.get(tree);
    this.working++;
    this.say("");
    this.tree = tree;
    this.layout = known?.layout ?? new Layout(tree, (item) => this.measure(tree, item));
    this.overlays = overlays;
    this.mostBytes = tree.level.bytes.reduce((most, one) => Math.max(most, one), 1);
    this.canvas.setAttribute("aria-label", words);
    this.isMoved = known !== undefined;
    if (known === undefined) this.openWhatFits(tree);
    else {
      this.open = known.open;
      this.arrange();
      [this.at, this.scale] = [known.at, known.scale];
    }
    this.draw();
  }

  /** Light elements, and bring the first of them into sight where none is. */
  light(lit: readonly number[], chosen: readonly number[], reveal: boolean): void {
    this.lit = new Set(lit);
    this.chosen = new Set(chosen);
    this.litIn.clear();
    for (const one of lit)
      for (const group of this.tree?.around(this.tree.level.groups[one] ?? -1) ?? [])
        this.litIn.set(group, (this.litIn.get(group) ?? 0) + 1);
    if (reveal) this.reveal();
    this.draw();
  }

  /** How many items are drawn, for who looks from outside. */
  get shown(): number {
    return count(this.drawn);
  }

  // What is where

  private measure(tree: Tree, item: Item): { width: number; height: number } {
    const { first, second } = this.words(tree, item);
    this.context.font = BOLD;
    const one = this.context.measureText(first).width;
    this.context.font = SMALL;
    const width =
      Math.max(one + (item.group >= 0 ? 20 : 0), this.context.measureText(second).width) + 18;
    return { width: Math.max(NARROWEST, Math.min(WIDEST, Math.ceil(width))), height: HEIGHT };
  }

  private words(tree: Tree, { element: one, group }: Item): { first: string; second: string } {
    const { level } = tree;
    if (one >= 0) {
      const isCall = level.name === "launches";
      const first = isCall ? level.names[one]! : level.labels[one] || level.names[one]!;
      const name = isCall ? level.labels[one]! : level.names[one]!;
      return { first, second: [name, level.facts[one]].filter((part) => part).join("  ") };
    }
    const { name: whole, of, parent } = level.all_groups[group]!;
    const around = level.all_groups[parent]?.name ?? "";
    const name = whole.startsWith(`${around}.`) ? whole.slice(around.length + 1) : whole;
    const size = tree.elements(group).length;
    return {
      first: of && of !== "fused" ? `${name}: ${of}` : name,
      second: `${size.toLocaleString("en")} ${of === "fused" ? "buffers, fused" : "nodes"}`,
    };
  }

  /** Open as many groups as leave all of the graph in sight and its words to be read. */
  private openWhatFits(tree: Tree): void {
    let best = { open: new Set<number>(), scale: 0 };
    for (const most of OPEN_AT_FIRST) {
      this.open = tree.openAtFirst(most);
      this.arrange();
      this.fit();
      if (this.scale > best.scale) best = { open: this.open, scale: this.scale };
      if (this.scale >= SCALES.fitted) return;
    }
    this.open = best.open;
    this.arrange();
    this.seeAll();
  }

  /** All of it; of a large graph its top, with words that can be read. */
  private seeAll(): void {
    this.fit();
    if (this.scale < SCALES.fitted) this.begin(SCALES.fitted);
    this.draw();
  }

  private arrange(): void {
    this.drawn = this.layout!.plan(this.open);
    this.dom.dataset["items"] = String(this.shown);
  }

  private get space(): { width: number; height: number } {
    return { width: this.dom.clientWidth, height: this.dom.clientHeight };
  }

  /** Begin at the top, where most is, as wide as fits while words can be read, with whole boxes at the left. */
  private begin(least: number = SCALES.readable): void {
    const { width } = this.space;
    this.scale = Math.max(
      least,
      Math.min(SCALES.first, (width - 24) / Math.max(1, this.drawn.width)),
    );
    const areas = this.drawn.boxes.map((box) => box.width * box.height);
    const middle =
      this.drawn.boxes.reduce(
        (sum, box, place) => sum + areas[place]! * (box.x + box.width / 2),
        0,
      ) /
      Math.max(
        1,
        areas.reduce((sum, area) => sum + area, 0),
      );
    if (this.drawn.width * this.scale <= width) {
      this.at = { x: (width - this.drawn.width * this.scale) / 2, y: 14 };
      return;
    }
    const isNarrow = ({ width: wide }: Box): boolean => wide * this.scale < width / 2;
    let edge = middle - width / 2 / this.scale;
    for (let cut = -Infinity; cut !== edge;) {
      cut = edge;
      for (const box of this.drawn.boxes.filter(isNarrow))
        if (box.x < edge && edge < box.x + box.width) edge = box.x;
    }
    this.at = { x: 12 - edge * this.scale, y: 14 };
  }

  private fit(): void {
    const { width, height } = this.space;
    const below = this.tools.offsetHeight + 12;
    const scale = Math.min(
      (width - 20) / Math.max(1, this.drawn.width),
      (height - below - 14) / Math.max(1, this.drawn.height),
    );
    this.scale = Math.max(SCALES.least, Math.min(1.2, scale));
    this.at = {
      x: (width - this.drawn.width * this.scale) / 2,
      y: Math.max(10, (height - below - this.drawn.height * this.scale) / 2),
    };
    this.draw();
  }

  private zoom(by: number, around?: Point): void {
    this.isMoved = true;
    const { width, height } = this.space;
    const middle = around ?? { x: width / 2, y: height / 2 };
    const scale = Math.max(SCALES.least, Math.min(SCALES.most, this.scale * by));
    const grown = scale / this.scale;
    this.at = {
      x: middle.x - (middle.x - this.at.x) * grown,
      y: middle.y - (middle.y - this.at.y) * grown,
    };
    this.scale = scale;
    this.draw();
  }

  /** Open every group, or close all: many take a while, in which the view goes on working. */
  private async openAll(all: boolean): Promise<void> {
    const { tree, layout } = this;
    if (tree === null || layout === null) return;
    const wanted = new Set(all ? tree.level.all_groups.keys() : []);
    const work = ++this.working;
    // Groups are behind those that they are in: the innermost are laid out first.
    const groups = [...wanted].reverse();
    for (let at = 0, from = performance.now(); at < groups.length; at++) {
      layout.prepare(groups[at]!, wanted);
      if (performance.now() - from < SLICE) continue;
      this.say(`Laying out ${at + 1} of ${groups.length} groups …`);
      await new Promise((done) => setTimeout(done));
      if (work !== this.working) return;
      from = performance.now();
    }
    this.say("");
    this.open = wanted;
    this.isMoved = true;
    this.arrange();
    if (all) this.begin();
    else this.fit();
    if (this.lit.size > 0) this.reveal();
    this.draw();
  }

  private say(words: string): void {
    this.waiting.textContent = words;
    this.waiting.hidden = words === "";
  }

  /** Open or close a group, which stays where it was seen. */
  toggle(group: number): void {
    this.isMoved = true;
    this.working++;
    this.say("");
    const old = this.find((box) => box.item.group === group);
    if (!this.open.delete(group)) this.open.add(group);
    this.arrange();
    const now = this.find((box) => box.item.group === group);
    if (old !== null && now !== null)
      this.at = {
        x: this.at.x + (old.x - now.x) * this.scale,
        y: this.at.y + (old.y - now.y) * this.scale,
      };
    this.draw();
  }

  private find(wanted: (box: Box) => boolean, plan = this.drawn, x = 0, y = 0): Placed | null {
    for (const box of plan.boxes) {
      if (wanted(box)) return { box, x: x + box.x, y: y + box.y };
      const inner =
        box.inside && this.find(wanted, box.inside, x + box.x + inset(box), y + box.y + TITLE);
      if (inner) return inner;
    }
    return null;
  }

  /** The item that represents an element: itself, or the closed group that it is in. */
  private standsFor(one: number): Placed | null {
    const around = this.tree!.around(this.tree!.level.groups[one] ?? -1);
    let closed = -1;
    for (const group of around) if (!this.open.has(group)) closed = group;
    return this.find(({ item }) => (closed >= 0 ? item.group === closed : item.element === one));
  }

  /** Open the groups around an element, and bring it into sight. */
  turnTo(one: number): void {
    for (const group of this.tree!.around(this.tree!.level.groups[one] ?? -1)) this.open.add(group);
    this.arrange();
    this.reveal();
    this.draw();
  }

  private reveal(): void {
    const [first] = this.lit;
    if (this.tree === null || first === undefined) return;
    const found = this.standsFor(first);
    if (found === null) return;
    const { width, height } = this.space;
    const x = this.at.x + (found.x + found.box.width / 2) * this.scale;
    const y = this.at.y + (found.y + found.box.height / 2) * this.scale;
    if (x > 10 && x < width - 10 && y > 10 && y < height - 10) return;
    this.at = { x: this.at.x + width / 2 - x, y: this.at.y + height / 2 - y };
  }

  /** The innermost item at a place of the canvas. */
  private hit({ x, y }: Point): Box | null {
    const search = (plan: Plan, left: number, top: number): Box | null => {
      for (const box of plan.boxes) {
        if (left < box.x || top < box.y || left > box.x + box.width || top > box.y + box.height)
          continue;
        return (
          (box.inside && search(box.inside, left - box.x - inset(box), top - box.y - TITLE)) ?? box
        );
      }
      return null;
    };
    return search(this.drawn, (x - this.at.x) / this.scale, (y - this.at.y) / this.scale);
  }

  // What the reader does

  private listen(): void {
    const { canvas } = this;
    const place = (event: MouseEvent): Point => {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    canvas.addEventListener("pointerdown", (down) => {
      this.isMoved = true;
      canvas.setPointerCapture(down.pointerId);
      const map = this.map();
      const isIn = map !== null && place(down).x > map.x && place(down).y > map.y;
      const [from, before] = [place(down), this.at];
      let moved = false;
      const drag = (event: PointerEvent): void => {
        const to = place(event);
        if (isIn) return this.center((to.x - map.x) / map.scale, (to.y - map.y) / map.scale);
        moved ||= Math.hypot(to.x - from.x, to.y - from.y) > STILL;
        if (!moved) return;
        this.at = { x: before.x + to.x - from.x, y: before.y + to.y - from.y };
        this.draw();
      };
      canvas.addEventListener("pointermove", drag);
      canvas.addEventListener(
        "lostpointercapture",
        (event) => {
          canvas.removeEventListener("pointermove", drag);
          if (isIn) drag(event);
          else if (!moved) this.clicked(place(event));
        },
        { once: true },
      );
    });
    canvas.addEventListener("dblclick", (event) => {
      const box = this.hit(place(event));
      if (box !== null && box.item.group >= 0) this.toggle(box.item.group);
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY / 300), place(event));
        else if (this.root.matches(":focus-within")) {
          this.at = {
            x: this.at.x - (event.shiftKey ? event.deltaY : event.deltaX),
            y: this.at.y - (event.shiftKey ? 0 : event.deltaY),
          };
          this.draw();
        } else return;
        event.preventDefault();
      },
      { passive: false },
    );
    canvas.addEventListener("pointermove", (event) => {
      const box = this.hit(place(event));
      const refusal = this.refusalAt(place(event));
      canvas.style.cursor = box === null && refusal === null ? "grab" : "pointer";
      if (refusal !== null) canvas.title = `Not fused: ${refusal.row.reason}`;
      else canvas.title = box === null || this.tree === null ? "" : this.title(box.item);
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  private title(item: Item): string {
    const { first, second } = this.words(this.tree!, item);
    return item.group >= 0
      ? `${first}: ${second}. A double click opens or closes it.`
      : `${first}\n${second}`;
  }

  private clicked(where: Point): void {
    const refusal = this.refusalAt(where);
    if (refusal !== null) return this.listener.refused(refusal);
    const box = this.hit(where);
    if (box === null || this.tree === null) return this.listener.choose([]);
    const { element: one, group } = box.item;
    if (group >= 0 && this.onSign(where, box)) return this.toggle(group);
    this.listener.choose(group >= 0 ? this.tree.elements(group) : [one]);
  }

  private refusalAt({ x, y }: Point): Refusal | null {
    const near = this.signs.find(({ place }) => {
      const seen = this.seenAt(place);
      return Math.hypot(seen.x - x, seen.y - y) < SIGN;
    });
    return near?.refusal ?? null;
  }

  /** Where a place of the graph is on the canvas. */
  private seenAt({ x, y }: Point): Point {
    return { x: x * this.scale + this.at.x, y: y * this.scale + this.at.y };
  }

  /** Whether a place is on the sign that opens and closes a group. */
  private onSign(where: Point, box: Box): boolean {
    const placed = this.find((one) => one === box);
    if (placed === null) return false;
    const x = (where.x - this.at.x) / this.scale - placed.x;
    const y = (where.y - this.at.y) / this.scale - placed.y;
    return x > box.width - 22 && y < 22;
  }

  private key(event: KeyboardEvent): void {
    if (event.metaKey || event.altKey || this.tree === null) return;
    const [first] = this.chosen;
    const { level } = this.tree;
    const choose = (one: number | undefined): void => {
      if (one !== undefined) this.listener.choose([one]);
    };
    if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else if (event.key === "ArrowUp") choose(first === undefined ? 0 : level.inputs[first]?.[0]);
    else if (event.key === "ArrowDown")
      choose(
        first === undefined
          ? 0
          : level.inputs.findIndex((inputs) => inputs.includes(first)) >>> 0 >= level.names.length
            ? undefined
            : level.inputs.findIndex((inputs) => inputs.includes(first)),
      );
    else if (event.key === "ArrowLeft")
      choose(first === undefined || first === 0 ? undefined : first - 1);
    else if (event.key === "ArrowRight")
      choose(first === undefined || first + 1 >= level.names.length ? undefined : first + 1);
    else if (event.key === "Enter" && first !== undefined) this.openAround(first);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Open the closed group that represents an element; close the one around it where none is. */
  private openAround(one: number): void {
    const around = this.tree!.around(this.tree!.level.groups[one] ?? -1);
    const closed = [...around].reverse().find((group) => !this.open.has(group));
    const group = closed ?? around[0];
    if (group !== undefined) this.toggle(group);
  }

  // Drawing

  draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  private color(name: string): string {
    let found = this.colors.get(name);
    if (found === undefined)
      this.colors.set(
        name,
        (found = getComputedStyle(this.root).getPropertyValue(`--kl-${name}`).trim() || "#888"),
      );
    return found;
  }

  private paint(): void {
    const { width, height } = this.space;
    const dense = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * dense), Math.round(height * dense)];
    if (this.canvas.width !== w || this.canvas.height !== h)
      [this.canvas.width, this.canvas.height] = [w, h];
    const { context } = this;
    context.setTransform(dense, 0, 0, dense, 0, 0);
    context.clearRect(0, 0, width, height);
    if (this.tree === null || width === 0) return;
    context.translate(this.at.x, this.at.y);
    context.scale(this.scale, this.scale);
    const seen = {
      left: -this.at.x / this.scale,
      top: -this.at.y / this.scale,
      right: (width - this.at.x) / this.scale,
      bottom: (height - this.at.y) / this.scale,
    };
    this.paintPlan(this.drawn, seen, 0);
    this.paintOverlays();
    context.setTransform(dense, 0, 0, dense, 0, 0);
    this.paintMap(seen);
  }

  /** Where the small map of all of the graph is, at the bottom right; null where all is in sight. */
  private map(): (Point & { scale: number }) | null {
    const [space, all] = [this.space, this.drawn];
    const [left, top] = [this.at.x, this.at.y];
    const [right, bottom] = [left + all.width * this.scale, top + all.height * this.scale];
    if (left >= 0 && top >= 0 && right <= space.width && bottom <= space.height) return null;
    const [wide, high] = [
      Math.min(MAP.width, space.width / 5),
      Math.min(MAP.height, space.height / 4),
    ];
    const scale = Math.min(wide / all.width, high / all.height, this.scale / 2);
    const below =
      this.tools.offsetWidth > space.width - 2 * MAP.width ? this.tools.offsetHeight : 0;
    const at = { x: space.width - all.width * scale, y: space.height - below - all.height * scale };
    return { x: at.x - 8, y: at.y - 8, scale };
  }

  private paintMap(seen: Seen): void {
    const map = this.map();
    this.dom.dataset["map"] = JSON.stringify(map);
    if (map === null) return;
    const { context, drawn } = this;
    context.translate(map.x, map.y);
    context.scale(map.scale, map.scale);
    context.lineWidth = 1 / map.scale;
    context.fillStyle = this.color("shade");
    context.strokeStyle = this.color("edge");
    context.fillRect(0, 0, drawn.width, drawn.height);
    context.strokeRect(0, 0, drawn.width, drawn.height);
    const paint = (plan: Plan, left: number, top: number): void => {
      for (const box of plan.boxes) {
        const [x, y] = [left + box.x, top + box.y];
        context.fillStyle = this.color(this.isIn(box.item) ? "focus" : "line");
        if (box.inside === null) context.fillRect(x, y, box.width, box.height);
        else paint(box.inside, x + inset(box), y + TITLE);
      }
    };
    paint(drawn, 0, 0);
    context.strokeStyle = this.color("ink");
    const [left, top] = [Math.max(0, seen.left), Math.max(0, seen.top)];
    const width = Math.min(drawn.width, seen.right) - left;
    context.strokeRect(left, top, width, Math.min(drawn.height, seen.bottom) - top);
  }

  /** Bring a place of the graph to the middle. */
  private center(x: number, y: number): void {
    const { width, height } = this.space;
    this.at = { x: width / 2 - x * this.scale, y: height / 2 - y * this.scale };
    this.draw();
  }

  private paintOverlays(): void {
    const named = new Set<Box>();
    this.overlays.hulls.forEach((hull, number) => this.paintHull(hull, number, named));
    this.signs = [];
    for (const refusal of this.overlays.refusals) this.paintRefusal(refusal);
    this.dom.dataset["signs"] = JSON.stringify(this.signs.map(({ place }) => this.seenAt(place)));
  }

  /** Boxes that represent elements, each once. */
  private placed(elements: readonly number[]): Placed[] {
    const found = new Map<Box, Placed>();
    for (const one of elements) {
      const placed = this.standsFor(one);
      if (placed !== null) found.set(placed.box, placed);
    }
    return [...found.values()];
  }

  /** A hull with its name above its first box that has no name yet. */
  private paintHull({ name, elements }: Hull, number: number, named: Set<Box>): void {
    // A closed group of a module stands for more than the kernel.
    const boxes = this.placed(elements).filter(({ box }) => box.item.group < 0);
    if (boxes.length < 2) return;
    const { context } = this;
    const isLit = elements.some((one) => this.chosen.has(one));
    context.fillStyle = BLIND_SAFE[number % (BLIND_SAFE.length - 1)]!;
    context.globalAlpha = isLit ? 0.45 : 0.22;
    context.fill(hullPath(boxes));
    context.globalAlpha = 1;
    if (this.scale < READABLE) return;
    const free = boxes.filter(({ box }) => !named.has(box));
    const top = (free.length > 0 ? free : boxes).reduce((best, one) =>
      one.y < best.y ? one : best,
    );
    named.add(top.box);
    context.font = SMALL;
    context.fillStyle = this.color("soft");
    context.fillText(name, top.x - 4, top.y - 12);
  }

  private paintRefusal(refusal: Refusal): void {
    const [from, to] = [this.standsFor(refusal.from), this.standsFor(refusal.to)];
    if (from === null || to === null || from.box === to.box) return;
    const { context } = this;
    const [start, end] = [rightOf(from), rightOf(to)];
    // Beside the boxes, not across them.
    const far = Math.max(start.x, end.x) + 40 + Math.abs(end.y - start.y) / 4;
    const place = { x: (start.x + end.x + 2 * far) / 4, y: (start.y + end.y) / 2 };
    context.strokeStyle = context.fillStyle = this.color("bad");
    context.lineWidth = 1.5 / Math.max(0.6, this.scale);
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(start.x, start.y);
    context.quadraticCurveTo(far, (start.y + end.y) / 2, end.x, end.y);
    context.stroke();
    context.setLineDash([]);
    const radius = 8 / Math.max(0.6, this.scale);
    context.beginPath();
    context.arc(place.x, place.y, radius, 0, 2 * Math.PI);
    context.fillStyle = this.color("paper");
    context.fill();
    context.stroke();
    context.beginPath();
    for (const side of [1, -1]) {
      context.moveTo(place.x - radius / 2, place.y - (side * radius) / 2);
      context.lineTo(place.x + radius / 2, place.y + (side * radius) / 2);
    }
    context.stroke();
    this.signs.push({ place, refusal });
  }

  private paintPlan(plan: Plan, seen: Seen, depth: number): void {
    const { context } = this;
    for (const line of plan.lines) if (isSeen(line, seen)) this.paintLine(line, plan);
    for (const box of plan.boxes) {
      if (
        box.x > seen.right ||
        box.y > seen.bottom ||
        box.x + box.width < seen.left ||
        box.y + box.height < seen.top
      )
        continue;
      this.paintBox(box, depth);
      if (box.inside === null) continue;
      const [x, y] = [box.x + inset(box), box.y + TITLE];
      context.save();
      context.translate(x, y);
      this.paintPlan(
        box.inside,
        { left: seen.left - x, top: seen.top - y, right: seen.right - x, bottom: seen.bottom - y },
        depth + 1,
      );
      context.restore();
    }
  }

  private paintBox({ item, x, y, width, height, inside }: Box, depth: number): void {
    const { context } = this;
    const tree = this.tree!;
    const isGroup = item.group >= 0;
    const many = isGroup ? (this.litIn.get(item.group) ?? 0) : 0;
    const isLit = isGroup ? many > 0 && inside === null : this.lit.has(item.element);
    const isChosen = !isGroup && this.chosen.has(item.element);
    const label = isGroup ? "" : tree.level.labels[item.element]!;
    const isEdge = label === "placeholder" || label === "output" || label === "get_attr";
    const paper =
      inside !== null
        ? depth % 2 === 0
          ? "shade"
          : "paper"
        : isChosen
          ? "chosen"
          : isLit
            ? "lit"
            : isGroup
              ? "came"
              : label === "Triton"
                ? "match"
                : isEdge
                  ? "shade"
                  : "paper";
    context.beginPath();
    context.roundRect(x, y, width, height, isEdge ? height / 2 : isGroup ? 8 : 4);
    context.fillStyle = this.color(paper);
    context.fill();
    context.lineWidth = isLit || isChosen ? 2 / Math.max(0.6, this.scale) : 1;
    context.strokeStyle = this.color(
      isLit || isChosen ? "focus" : inside !== null ? "line" : "edge",
    );
    context.stroke();
    if (this.scale < READABLE) return;
    const { first, second } = this.words(tree, item);
    const space = width - (isGroup ? 30 : 14);
    context.textBaseline = "middle";
    context.fillStyle = this.color("ink");
    context.font = BOLD;
    context.fillText(this.cut(first, space), x + 8, y + (inside !== null ? 12 : 12.5));
    if (inside === null) {
      context.font = SMALL;
      context.fillStyle = this.color("soft");
      context.fillText(
        this.cut(many > 0 ? `${second}, ${many} lit` : second, width - 14),
        x + 8,
        y + 26.5,
      );
    }
    if (!isGroup) return;
    context.fillStyle = this.color("soft");
    context.font = BOLD;
    context.fillText(inside === null ? "+" : "−", x + width - 16, y + 12);
  }

  /** Words that fit. */
  private cut(words: string, space: number): string {
    if (this.context.measureText(words).width <= space) return words;
    let [low, high] = [0, words.length];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.context.measureText(`${words.slice(0, middle)}…`).width <= space) low = middle;
      else high = middle - 1;
    }
    return `${words.slice(0, low)}…`;
  }

  private isIn(item: Item): boolean {
    return item.group >= 0 ? (this.litIn.get(item.group) ?? 0) > 0 : this.lit.has(item.element);
  }

  private paintLine({ from, to, bytes, points }: Line, plan: Plan): void {
    const { context } = this;
    const isLit = this.isIn(plan.boxes[from]!.item) || this.isIn(plan.boxes[to]!.item);
    context.strokeStyle = context.fillStyle = this.color(isLit ? "focus" : "edge");
    context.globalAlpha = isLit ? 1 : 0.7;
    const share = Math.min(1, bytes / this.mostBytes);
    context.lineWidth = Math.max(isLit ? 1.6 : WIDTHS.least, WIDTHS.most * share);
    context.beginPath();
    const [start, ...rest] = points;
    context.moveTo(start!.x, start!.y);
    rest.forEach((point, place) => {
      const next = rest[place + 1];
      if (next === undefined) context.lineTo(point.x, point.y);
      else
        context.quadraticCurveTo(point.x, point.y, (point.x + next.x) / 2, (point.y + next.y) / 2);
    });
    context.stroke();
    if (this.scale >= READABLE) this.paintArrow(points, 7 + context.lineWidth);
    context.globalAlpha = 1;
  }

  private paintArrow(points: readonly Point[], length: number): void {
    const { context } = this;
    const [end, before] = [points[points.length - 1]!, points[points.length - 2]!];
    const angle = Math.atan2(end.y - before.y, end.x - before.x);
    context.beginPath();
    context.moveTo(end.x, end.y);
    for (const turn of [-0.42, 0.42])
      context.lineTo(
        end.x - length * Math.cos(angle + turn),
        end.y - length * Math.sin(angle + turn),
      );
    context.fill();
  }
}

/** How far what is in a group is from its left side. */
function inset(box: Box): number {
  return box.inside === null ? 0 : Math.max(PADDING, (box.width - box.inside.width) / 2);
}

function count(plan: Plan): number {
  return plan.boxes.reduce(
    (sum, box) => sum + 1 + (box.inside === null ? 0 : count(box.inside)),
    0,
  );
}

function isSeen({ points }: Line, seen: Seen): boolean {
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
  return (
    Math.min(...xs) <= seen.right &&
    Math.max(...xs) >= seen.left &&
    Math.min(...ys) <= seen.bottom &&
    Math.max(...ys) >= seen.top
  );
}
