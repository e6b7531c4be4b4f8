// The plots of one sweep: sorted times, time against a resource, a heat map over two parameters, parallel coordinates.
import { Sheet, type Spot } from "./chart";
import { fastToSlow, inkOn, sequential } from "./palette";
import { numberWords, roundNumbers, type Scale, scaleOf } from "./scales";
import { svg } from "./svg";
import {
  byResource,
  type Entry,
  levels,
  type Measure,
  STANDING,
  type TuningState,
  type Value,
  valueWords,
} from "./tuning_state";

/** How large a plot is, and how times are drawn. */
export interface Wishes {
  width: number;
  height: number;
  log: boolean;
  /** The baseline of whose speed a time is drawn as percents; null for microseconds. */
  against?: { name: string; us: number } | null;
}

const MARGINS = { left: 58, right: 14, top: 12, bottom: 40 };

const timesOf = (entries: readonly Entry[]): number[] =>
  entries.flatMap(({ config }) => [
    config.us!,
    config.lower ?? config.us!,
    config.upper ?? config.us!,
  ]);

const style = ({ config }: Entry): string =>
  ["best", "tied", "candidate"].includes(config.standing) ? "kl-best" : "kl-other";

/** Faint where the filters leave a config out: axes and neighbors stay where they are. */
const out = (state: TuningState, entry: Entry): string =>
  state.passes(entry.config) ? "" : " kl-out";

export function timesChart(state: TuningState, { width, height, log, against }: Wishes): Sheet {
  const entries = state.ranked;
  const sheet = new Sheet(
    width,
    height,
    MARGINS,
    `Times of ${entries.length} configs, the fastest first, with quartiles`,
  );
  const { baselines } = state.current;
  const shown = (us: number): number => (against ? (100 * against.us) / us : us);
  const up = scaleOf(
    [...timesOf(entries), ...Object.values(baselines)].map(shown),
    sheet.bottom,
    sheet.top,
    { log, zero: against != null && !log },
  );
  const gap = (sheet.right - sheet.left) / Math.max(1, entries.length);
  sheet.up(up, against ? `% of the speed of ${against.name}` : "us, median and quartiles");
  sheet.baselines(baselines, { ...up, at: (us) => up.at(shown(us)) });
  const radius = Math.max(1.6, Math.min(4, gap / 3));
  entries.forEach((entry, rank) => {
    const x = sheet.left + (rank + 0.5) * gap;
    const { us, lower, upper } = entry.config;
    const [low, middle, high] = [lower ?? us!, us!, upper ?? us!].map((time) => up.at(shown(time)));
    const cap = Math.min(3, gap / 4);
    const whisker = `M${x} ${low}V${high}M${x - cap} ${low}H${x + cap}M${x - cap} ${high}H${x + cap}`;
    sheet.add(
      svg(
        "g",
        { class: `kl-point ${style(entry)}${out(state, entry)}` },
        svg("path", { d: whisker, class: "kl-whisker" }),
        svg("circle", { cx: x, cy: middle!, r: radius }),
      ),
      entry.place,
    );
    if (state.passes(entry.config)) sheet.spots.push({ place: entry.place, x, y: middle! });
  });
  sheet.line(sheet.left, sheet.bottom, sheet.right, sheet.bottom, "kl-axis");
  const ranks = roundNumbers(1, entries.length, 8).filter(
    (rank) => Number.isInteger(rank) && rank >= 1,
  );
  for (const rank of new Set([1, ...ranks]))
    if (rank <= entries.length)
      sheet.text(String(rank), sheet.left + (rank - 0.5) * gap, sheet.bottom + 16);
  sheet.nameAcross("configs, the fastest first");
  sheet.nameBaselines();
  return sheet;
}

const measureWords = (measure: Measure, value: number): string =>
  measure.name === "occupancy" ? `${Math.round(100 * value)} %` : numberWords(value);

export function againstChart(
  state: TuningState,
  measure: Measure,
  { width, height, log }: Wishes,
): Sheet {
  const entries = state.ranked.filter(({ config }) => measure.of(config) !== null);
  const sheet = new Sheet(width, height, MARGINS, `Time against ${measure.axis}`);
  const { baselines } = state.current;
  const up = scaleOf(
    [...entries.map(({ config }) => config.us!), ...Object.values(baselines)],
    sheet.bottom,
    sheet.top,
    { log },
  );
  const across = scaleOf(
    entries.map(({ config }) => measure.of(config)!),
    sheet.left,
    sheet.right,
  );
  sheet.up(up, "us");
  sheet.across(across, measure.axis, (value) => measureWords(measure, value));
  sheet.baselines(baselines, up);
  for (const entry of [...entries].reverse()) {
    const [x, y] = [across.at(measure.of(entry.config)!), up.at(entry.config.us!)];
    sheet.add(
      svg(
        "g",
        { class: `kl-point ${style(entry)}${out(state, entry)}` },
        svg("circle", { cx: x, cy: y, r: 4.5 }),
      ),
      entry.place,
    );
  }
  for (const entry of entries) {
    if (state.passes(entry.config))
      sheet.spots.push({
        place: entry.place,
        x: across.at(measure.of(entry.config)!),
        y: up.at(entry.config.us!),
      });
  }
  sheet.nameBaselines();
  return sheet;
}

/** Width of a letter of a bar's words, in pixels; and the least space that a bar's words take. */
const LETTER = 5.6;
const LINE = 13;

/** A resource of each config, the best first: what is known where nothing was timed. */
export function resourceChart(
  state: TuningState,
  measure: Measure,
  { width, height }: Wishes,
): Sheet {
  const entries = byResource(state.all, measure);
  const { parameters, varying } = state.current;
  const names = varying.length > 0 ? varying : parameters;
  const labels = entries.map(({ config }) =>
    clipped(
      names.map((name) => valueWords(config.values[parameters.indexOf(name)] ?? null)).join(", "),
    ),
  );
  const longest = LETTER * Math.max(1, ...labels.map((one) => one.length));
  const space = (width - MARGINS.left - MARGINS.right) / Math.max(1, entries.length);
  const lies = longest + 4 <= space;
  const bottom =
    space < LINE ? MARGINS.bottom : MARGINS.bottom + (lies ? 6 : Math.min(longest, height / 3));
  const sheet = new Sheet(
    width,
    height,
    { ...MARGINS, top: MARGINS.top + LINE, bottom },
    `${measure.axis}, of ${entries.length} configs`,
  );
  const error = measure.name === "estimate" ? state.data.estimate_error : 0;
  const up = scaleOf(
    entries.map(({ config }) => (1 + error) * measure.of(config)!),
    sheet.bottom,
    sheet.top,
    { zero: true },
  );
  const gap = (sheet.right - sheet.left) / Math.max(1, entries.length);
  sheet.up(up, measure.axis, (value) => measureWords(measure, value));
  const thick = Math.max(1, Math.min(18, gap - 3));
  entries.forEach((entry, rank) => {
    const [x, y] = [sheet.left + (rank + 0.5) * gap, up.at(measure.of(entry.config)!)];
    const bar = svg("rect", {
      x: x - thick / 2,
      y,
      width: thick,
      height: Math.max(0, sheet.bottom - y),
    });
    sheet.add(
      svg(
        "g",
        { class: `kl-point kl-bar ${style(entry)}${out(state, entry)}` },
        bar,
        ...errorBand(x, up, measure.of(entry.config)!, error, thick),
        svg("circle", { cx: x, cy: y, r: 3 }),
      ),
      entry.place,
    );
    const amount = measureWords(measure, measure.of(entry.config)!);
    const above = up.at((1 + error) * measure.of(entry.config)!) - 5;
    if (1.3 * LETTER * amount.length + 4 <= gap)
      sheet.text(amount, x, above, "middle", "kl-axis-text kl-amount");
    else if (entry.config.standing === "candidate" && error > 0)
      sheet.text(STANDING.candidate.mark, x, above, "middle", "kl-star");
    if (gap >= LINE) {
      const label = sheet.text(
        labels[rank]!,
        x,
        sheet.bottom + 15,
        lies ? "middle" : "end",
        "kl-axis-text kl-config-name",
      );
      if (!lies)
        label.setAttribute("transform", `rotate(-90 ${x + 4} ${sheet.bottom + 8}) translate(4 -7)`);
    }
    if (state.passes(entry.config)) sheet.spots.push({ place: entry.place, x, y });
  });
  sheet.line(sheet.left, sheet.bottom, sheet.right, sheet.bottom, "kl-axis");
  const orders: Record<string, string> = {
    occupancy: "the most first",
    estimate: "the fastest first",
  };
  const order = orders[measure.name] ?? "the least first";
  sheet.nameAcross(`configs (${names.join(", ")}), ${order}`);
  return sheet;
}

/** Where the time probably is, around an estimate; nothing for numbers without an error. */
function errorBand(
  x: number,
  up: Scale,
  amount: number,
  error: number,
  thick: number,
): SVGElement[] {
  if (error === 0) return [];
  const [top, bottom] = [up.at((1 + error) * amount), up.at((1 - error) * amount)];
  const cap = Math.min(3, thick / 2);
  const d = `M${x} ${top}V${bottom}M${x - cap} ${top}H${x + cap}M${x - cap} ${bottom}H${x + cap}`;
  return [svg("path", { d, class: "kl-whisker" })];
}

// A heat map

interface Cell {
  row: number;
  column: number;
  /** Its configs, the fastest first. */
  entries: Entry[];
}

class HeatMap extends Sheet {
  cells: Cell[] = [];
  columns = 1;
  rows = 1;

  get cellWidth(): number {
    return (this.right - this.left) / this.columns;
  }
  get cellHeight(): number {
    return (this.bottom - this.top) / this.rows;
  }

  override find(x: number, y: number): Spot | null {
    const [column, row] = [
      Math.floor((x - this.left) / this.cellWidth),
      Math.floor((y - this.top) / this.cellHeight),
    ];
    const at = this.cells.findIndex((cell) => cell.column === column && cell.row === row);
    return this.spots[at] ?? null;
  }

  /** The next cell in a direction; holes are passed over. */
  override step(from: number, key: string): number {
    const { row, column } = this.cells[from]!;
    const ahead = (cell: Cell): number =>
      ({
        ArrowLeft: cell.row === row ? column - cell.column : 0,
        ArrowRight: cell.row === row ? cell.column - column : 0,
        ArrowUp: cell.column === column ? row - cell.row : 0,
        ArrowDown: cell.column === column ? cell.row - row : 0,
      })[key] ?? 0;
    let best = from;
    this.cells.forEach((cell, at) => {
      if (ahead(cell) > 0 && (best === from || ahead(cell) < ahead(this.cells[best]!))) best = at;
    });
    return best;
  }
}

/** Every cell is the fastest config with two values; those that the filters leave out are not looked at. */
export function heatChart(
  state: TuningState,
  across: number,
  down: number,
  { width, height }: Wishes,
): Sheet {
  const entries = state.ranked.filter(({ config }) => state.passes(config));
  const [columns, rows] = [levels(state.ranked, across), levels(state.ranked, down)];
  const widest = Math.max(3, ...rows.map((value) => valueWords(value).length));
  const map = new HeatMap(
    width,
    height,
    { ...MARGINS, left: 34 + 7 * Math.min(widest, 16), top: 34 },
    "Times over two parameters",
  );
  map.columns = columns.length;
  map.rows = rows.length;
  const { parameters } = state.current;
  const held = (other: Value, value: Value): Entry[] =>
    entries.filter(
      ({ config }) => config.values[across] === other && config.values[down] === value,
    );
  const cells = rows
    .flatMap((value, row) =>
      columns.map((other, column): Cell => ({ row, column, entries: held(other, value) })),
    )
    .filter((cell) => cell.entries.length > 0);
  const share = shareOf(cells.map((cell) => cell.entries[0]!));
  for (const cell of cells) addCell(map, cell, sequential(1 - share(cell.entries[0]!.config.us!)));
  addLegend(
    map,
    cells.map((cell) => cell.entries[0]!.config.us!),
  );
  rows.forEach((value, row) => {
    map.text(clipped(value), map.left - 6, map.top + (row + 0.5) * map.cellHeight + 4, "end");
  });
  columns.forEach((value, column) =>
    map.text(clipped(value), map.left + (column + 0.5) * map.cellWidth, map.bottom + 16),
  );
  map.nameAcross(parameters[across]!);
  map.nameUp(parameters[down]!);
  return map;
}

const clipped = (value: Value): string => {
  const words = valueWords(value);
  return words.length > 16 ? `${words.slice(0, 15)}…` : words;
};

const STEPS = 24;

/** What the numbers are, and which color represents which; the scale is logarithmic. */
function addLegend(map: HeatMap, times: readonly number[]): void {
  if (times.length === 0) return;
  const wide = map.width > 560;
  map.text(
    wide
      ? "us, the fastest config of each cell; framed: the fastest of all, and ties"
      : "us; framed: the fastest",
    map.left,
    20,
    "start",
  );
  const [low, high] = [Math.min(...times), Math.max(...times)];
  const [from, to] = [map.right - 40 - (wide ? 110 : 60), map.right - 40];
  for (let step = 0; step < STEPS; step++) {
    const width = (to - from) / STEPS;
    map.add(
      svg("rect", {
        x: from + step * width,
        y: 10,
        width: width + 0.5,
        height: 12,
        fill: sequential(1 - step / (STEPS - 1)),
        class: "kl-scale",
      }),
    );
  }
  map.text(numberWords(low), from - 4, 20, "end");
  map.text(numberWords(high), to + 4, 20, "start");
}

function addCell(map: HeatMap, cell: Cell, color: string): void {
  const [x, y] = [map.left + cell.column * map.cellWidth, map.top + cell.row * map.cellHeight];
  const fastest = cell.entries[0]!;
  const made = svg(
    "g",
    { class: `kl-cell ${style(fastest)}` },
    svg("rect", {
      x: x + 1,
      y: y + 1,
      width: Math.max(1, map.cellWidth - 2),
      height: Math.max(1, map.cellHeight - 2),
      fill: color,
      rx: 2,
    }),
  );
  if (style(fastest) === "kl-best" && map.cellWidth > 12 && map.cellHeight > 12) {
    made.append(
      svg("rect", {
        x: x + 4,
        y: y + 4,
        width: map.cellWidth - 8,
        height: map.cellHeight - 8,
        fill: "none",
        stroke: inkOn(color),
        class: "kl-frame",
      }),
    );
  }
  if (map.cellWidth > 34 && map.cellHeight > 13) {
    made.append(
      svg(
        "text",
        {
          x: x + map.cellWidth / 2,
          y: y + map.cellHeight / 2 + 4,
          "text-anchor": "middle",
          fill: inkOn(color),
        },
        numberWords(fastest.config.us!),
      ),
    );
  }
  map.add(made, ...cell.entries.map((one) => one.place));
  map.cells.push(cell);
  map.spots.push({ place: fastest.place, x: x + map.cellWidth / 2, y: y + map.cellHeight / 2 });
}

/** How slow a time is beside all others: 0 is the fastest, 1 the slowest. */
function shareOf(entries: readonly Entry[]): (us: number) => number {
  const times = entries.map(({ config }) => config.us!);
  const [low, high] = [Math.min(...times), Math.max(...times)];
  return (us) => (high > low ? Math.log(us / low) / Math.log(high / low) : 0);
}

// Parallel coordinates

class Parallels extends Sheet {
  /** Of each spot, where its line meets the axes. */
  lines: number[][] = [];
  axes: number[] = [];

  override find(x: number, y: number): Spot | null {
    let [nearest, least]: [Spot | null, number] = [null, 12];
    this.lines.forEach((heights, at) => {
      const distance = Math.abs(this.heightAt(heights, x) - y);
      if (distance < least) [nearest, least] = [this.spots[at]!, distance];
    });
    return nearest;
  }

  private heightAt(heights: readonly number[], x: number): number {
    const after = Math.min(
      this.axes.length - 1,
      Math.max(
        1,
        this.axes.findIndex((axis) => axis >= x),
      ),
    );
    const [from, to] = [this.axes[after - 1] ?? x, this.axes[after] ?? x];
    const share = to > from ? Math.max(0, Math.min(1, (x - from) / (to - from))) : 0;
    return (
      heights[after - 1]! + share * ((heights[after] ?? heights[after - 1]!) - heights[after - 1]!)
    );
  }
}

/** A line for each config through its values to its time, the fastest on top. A click on a value shows only the configs that have it. */
export function parallelChart(state: TuningState, { width, height, log }: Wishes): Sheet {
  const entries = state.ranked;
  const { parameters, varying } = state.current;
  const names = varying.length > 0 ? varying : parameters;
  const sheet = new Parallels(
    width,
    height,
    { left: 30, right: 58, top: 16, bottom: 30 },
    "Parallel coordinates: each config's values and time",
  );
  sheet.axes = [...names, "us"].map(
    (_, at, all) => sheet.left + (at * (sheet.right - sheet.left)) / Math.max(1, all.length - 1),
  );
  const time = scaleOf(
    entries.map(({ config }) => config.us!),
    sheet.top + 4,
    sheet.bottom - 4,
    { log },
  );
  const steps = names.map((name) => levels(entries, parameters.indexOf(name)));
  const share = shareOf(entries);
  for (const entry of [...entries].reverse()) {
    const heights = names.map((name, axis) =>
      levelAt(sheet, steps[axis]!, entry.config.values[parameters.indexOf(name)] ?? null),
    );
    heights.push(time.at(entry.config.us!));
    const points = heights.map((y, axis) => `${sheet.axes[axis]},${y}`).join(" ");
    const best = style(entry) === "kl-best";
    sheet.add(
      svg("polyline", {
        points,
        class: `kl-line ${style(entry)}${out(state, entry)}`,
        stroke: best ? undefined : fastToSlow(share(entry.config.us!)),
      }),
      entry.place,
    );
    if (!state.passes(entry.config)) continue;
    sheet.lines.unshift(heights);
    sheet.spots.unshift({ place: entry.place, x: sheet.right, y: heights.at(-1)! });
  }
  drawAxes(sheet, state, names, steps, time);
  return sheet;
}

function levelAt(sheet: Sheet, values: readonly Value[], value: Value): number {
  const share = values.length > 1 ? values.indexOf(value) / (values.length - 1) : 0.5;
  return sheet.bottom - 8 - share * (sheet.bottom - sheet.top - 16);
}

function drawAxes(
  sheet: Parallels,
  state: TuningState,
  names: readonly string[],
  steps: readonly (readonly Value[])[],
  time: Scale,
): void {
  names.forEach((name, axis) => {
    const x = sheet.axes[axis]!;
    sheet.line(x, sheet.top, x, sheet.bottom, "kl-axis");
    sheet
      .text(name, x, sheet.height - 8, axis === 0 ? "start" : "middle", "kl-axis-name")
      .setAttribute("dx", axis === 0 ? "-24" : "0");
    for (const value of steps[axis]!) {
      const chosen = state.filters.has(name) && state.filters.get(name) === value;
      const label = sheet.text(
        clipped(value),
        x + 5,
        levelAt(sheet, steps[axis]!, value) + 4,
        "start",
        `kl-level${chosen ? " kl-chosen-level" : ""}`,
      );
      label.append(
        svg(
          "title",
          {},
          chosen ? `Show all values of ${name}` : `Show only ${name}=${valueWords(value)}`,
        ),
      );
      label.addEventListener("click", (event) => {
        event.stopPropagation();
        state.filter(name, chosen ? undefined : value);
      });
    }
  });
  sheet.line(sheet.right, sheet.top, sheet.right, sheet.bottom, "kl-axis");
  for (const tick of time.ticks)
    sheet.text(numberWords(tick), sheet.right + 6, time.at(tick) + 4, "start");
  sheet.text("us", sheet.right, sheet.height - 8, "middle", "kl-axis-name");
}
