// What a reader has chosen in a view of sweeps: one state that the plots and the table share.
import type { ConfigData, SweepData, TuningView } from "./data";
import { percentWords } from "./parts/bar";
import { numberWords } from "./scales";

export type Value = string | number | null;

/** Something to know of every config: a parameter, a time, a resource. */
export interface Column {
  name: string;
  /** What it is, for those who hover. */
  title: string;
  /** Words are on the left, numbers on the right. */
  isWords?: boolean;
  /** Whether it stays in sight while the others are scrolled. */
  isFrozen?: boolean;
  /** Whether a large number is a good one, which comes first. */
  isMostFirst?: boolean;
  value(config: ConfigData): Value;
  words(config: ConfigData): string;
}

export interface Sorting {
  column: string;
  descending: boolean;
}

/** A config and its place in `TuningView.configs`. */
export interface Entry {
  readonly place: number;
  readonly config: ConfigData;
}

/** What became another: what is pointed at, the selection, the order of the table, or which configs are shown. */
export type Change = "pointed" | "selected" | "sorted" | "shown";

export class TuningState {
  readonly entries: readonly Entry[];
  sweep = 0;
  /** Parameter -> the only value that is shown. */
  readonly filters = new Map<string, Value>();
  sorting: Sorting = { column: "us", descending: false };
  /** Places of the selected configs, in the order of selection. */
  selected: readonly number[] = [];
  pointed: number | null = null;
  private readonly listeners: ((what: Change) => void)[] = [];

  constructor(readonly data: TuningView) {
    this.entries = data.configs.map((config, place) => ({ place, config }));
  }

  onchange(listener: (what: Change) => void): void {
    this.listeners.push(listener);
  }

  notify(what: Change): void {
    for (const listener of this.listeners) listener(what);
  }

  get current(): SweepData {
    return this.data.sweeps[this.sweep]!;
  }

  sweepOf(place: number): SweepData {
    return this.data.sweeps[this.data.configs[place]!.sweep]!;
  }

  /** A config's number and values. */
  nameOf(place: number): string {
    const config = this.data.configs[place]!;
    return `${config.number}: ${configWords(this.sweepOf(place), config)}`;
  }

  /** All configs of the sweep. */
  get all(): readonly Entry[] {
    return this.entries.filter(({ config }) => config.sweep === this.sweep);
  }

  /** Those that the filters leave, in the order of the table. */
  get shown(): readonly Entry[] {
    return sorted(
      this.all.filter(({ config }) => this.passes(config)),
      this.columns(),
      this.sorting,
    );
  }

  /** The timed ones, dropped ones left out, the fastest first. */
  get ranked(): readonly Entry[] {
    return ranked(this.all);
  }

  passes(config: ConfigData): boolean {
    const { parameters } = this.current;
    for (const [name, wanted] of this.filters)
      if ((config.values[parameters.indexOf(name)] ?? null) !== wanted) return false;
    return true;
  }

  columns(): readonly Column[] {
    return columnsOf(
      this.current,
      this.all.map((one) => one.config),
    );
  }

  // Changes

  choose(sweep: number): void {
    if (sweep === this.sweep) return;
    this.sweep = sweep;
    this.filters.clear();
    this.notify("shown");
  }

  filter(name: string, value: Value | undefined): void {
    if (value === undefined) this.filters.delete(name);
    else this.filters.set(name, value);
    this.notify("shown");
  }

  sortBy(column: string): void {
    const again = this.sorting.column === column;
    const first = this.columns().find(({ name }) => name === column)?.isMostFirst ?? false;
    this.sorting = { column, descending: again ? !this.sorting.descending : first };
    this.notify("sorted");
  }

  point(place: number | null): void {
    if (place === this.pointed) return;
    this.pointed = place;
    this.notify("pointed");
  }

  select(places: readonly number[]): void {
    this.selected = places;
    this.notify("selected");
  }

  /** Add a config to the selection, or take it out. */
  toggle(place: number): void {
    this.select(
      this.selected.includes(place)
        ? this.selected.filter((one) => one !== place)
        : [...this.selected, place],
    );
  }
}

/** The timed configs that are in the race, the fastest median first. */
export function ranked(entries: readonly Entry[]): Entry[] {
  return entries
    .filter(({ config }) => config.us !== null && config.standing !== "dropped")
    .sort((a, b) => a.config.us! - b.config.us! || a.config.number - b.config.number);
}

/** Sorted by a column; what has no value comes last in either direction, and equal ones keep the order of the sweep. */
export function sorted(
  entries: readonly Entry[],
  columns: readonly Column[],
  { column, descending }: Sorting,
): Entry[] {
  const known = columns.find((one) => one.name === column);
  if (known === undefined && column === "us")
    return [...entries].sort(
      (a, b) => a.config.untimed_rank - b.config.untimed_rank || a.place - b.place,
    );
  const found = known ?? columns[0]!;
  const sign = descending ? -1 : 1;
  return [...entries].sort((a, b) => {
    const [left, right] = [found.value(a.config), found.value(b.config)];
    if (left === null || right === null)
      return left === right ? a.place - b.place : left === null ? 1 : -1;
    return sign * compared(left, right) || a.place - b.place;
  });
}

/** Numbers before texts; texts as readers order them, so that "block 2" comes before "block 10". */
export function compared(left: string | number, right: string | number): number {
  if (typeof left === "number" && typeof right === "number") return left - right;
  if (typeof left !== typeof right) return typeof left === "number" ? -1 : 1;
  return String(left).localeCompare(String(right), "en", { numeric: true });
}

/** The different values of a parameter, in order. */
export function levels(entries: readonly Entry[], parameter: number): Value[] {
  const found = [...new Set(entries.map(({ config }) => config.values[parameter] ?? null))];
  return found.sort((a, b) =>
    a === null || b === null ? (a === b ? 0 : a === null ? 1 : -1) : compared(a, b),
  );
}

export const valueWords = (value: Value): string => (value === null ? "–" : String(value));

// Columns

export interface Measure {
  name: string;
  axis: string;
  of: (config: ConfigData) => number | null;
}

/** Those configs of which a resource is known, the ones that take least first; the highest occupancy. */
export function byResource(entries: readonly Entry[], { name, of }: Measure): Entry[] {
  const known = entries.filter(
    ({ config }) => of(config) !== null && config.standing !== "dropped",
  );
  const sign = name === "occupancy" ? -1 : 1;
  return known.sort((a, b) => sign * (of(a.config)! - of(b.config)!) || a.place - b.place);
}

/** What time is drawn against; the names are those of the stills' kinds. */
export const RESOURCES: readonly Measure[] = [
  { name: "estimate", axis: "estimated time, us", of: (config) => config.estimate },
  { name: "occupancy", axis: "occupancy", of: (config) => config.occupancy },
  { name: "registers", axis: "registers of a thread", of: (config) => config.registers },
  { name: "spills", axis: "spilled bytes of a thread", of: (config) => config.spills },
  { name: "shared", axis: "shared memory of a program, bytes", of: (config) => config.shared },
];

function numeric(
  name: string,
  title: string,
  value: (config: ConfigData) => number | null,
  words: (value: number) => string = numberWords,
): Column {
  return {
    name,
    title,
    value,
    words: (config) => {
      const found = value(config);
      return found === null ? "" : words(found);
    },
  };
}

/** A column whose largest numbers are the best. */
function mostFirst(column: Column): Column {
  return { ...column, isMostFirst: true };
}

/** The reason, and the first line of who refused it. */
export const droppedWords = ({ dropped, why }: ConfigData): string =>
  dropped ? `${dropped}: ${why.split("\n")[0]}` : "";

const inWords = (name: string, title: string, words: (config: ConfigData) => string): Column => ({
  name,
  title,
  isWords: true,
  value: (config) => words(config) || null,
  words,
});

const TIME: Column = {
  ...numeric("us", "median time in microseconds", (config) => config.us),
  isFrozen: true,
};

const ESTIMATE: Column = {
  ...numeric("us, estimated", "estimated microseconds, not measured", (config) => config.estimate),
  isFrozen: true,
};

const KNOWN: readonly Column[] = [
  {
    name: "quartiles",
    title: "a quarter of the runs took less, a quarter took more",
    value: (config) => config.lower,
    words: ({ lower, upper }) =>
      lower === null || upper === null ? "" : `${numberWords(lower)} to ${numberWords(upper)}`,
  },
  mostFirst(numeric("GB/s", "bytes of a launch over the median time", (config) => config.gb_per_s)),
  mostFirst(
    numeric(
      "TFLOP/s",
      "operations of a launch over the median time",
      (config) => config.tflop_per_s,
    ),
  ),
  numeric("registers", "of a thread", (config) => config.registers),
  numeric(
    "spilled",
    "bytes of a thread that did not fit into registers",
    (config) => config.spills,
  ),
  numeric(
    "shared",
    "bytes of shared memory of a program",
    (config) => config.shared,
    (value) => value.toLocaleString("en"),
  ),
  mostFirst(
    numeric(
      "occupancy",
      "warps on a multiprocessor over the most possible, by the model",
      (config) => config.occupancy,
      percentWords,
    ),
  ),
  inWords(
    "matrix instruction",
    "the one with the most work in the PTX, or AMD's assembly",
    (config) => config.matrix,
  ),
  inWords(
    "same result as",
    "what its results were compared with",
    (config) => config.checked || (config.unchecked && "not checked"),
  ),
  inWords("dropped", "why it is out of the race", droppedWords),
];

/** The columns of a sweep's table: the parameters that vary, and what is known of any config. */
export function columnsOf(sweep: SweepData, configs: readonly ConfigData[]): Column[] {
  const shown = sweep.varying.length > 0 ? sweep.varying : sweep.parameters;
  const parameters = shown.map((name): Column => {
    const at = sweep.parameters.indexOf(name);
    const value = (config: ConfigData): Value => config.values[at] ?? null;
    return {
      name,
      title: `the parameter ${name}`,
      value,
      words: (config) => valueWords(value(config)),
      isFrozen: true,
    };
  });
  const number: Column = {
    ...numeric("config", "its number in the sweep", (config) => config.number, String),
    isFrozen: true,
  };
  const known = (column: Column): boolean =>
    configs.some((config) => column.value(config) !== null);
  // The time comes first: in a narrow cell the table's right part is out of sight.
  const times = [known(TIME) ? TIME : ESTIMATE].filter(known);
  const speeds = Object.entries(sweep.baselines).map(([name, us]) =>
    mostFirst(
      numeric(
        `% of ${name}`,
        `speed in percent of that of ${name}`,
        (config) => config.us && (100 * us) / config.us,
        (value) => String(Number(value.toPrecision(3))),
      ),
    ),
  );
  const others = known(TIME) ? [...speeds, ...KNOWN, ESTIMATE] : KNOWN;
  return [
    number,
    ...times,
    ...parameters,
    ...others.filter(known).map((column) => ({ ...column, isFrozen: false })),
  ];
}

/** The values of some configs as options of `%%tiletune`: "--space BLOCK=128,256 --space num_warps=4"; and how many configs that makes. */
export function spaceOf(
  sweep: SweepData,
  configs: readonly ConfigData[],
): { words: string; count: number } {
  const all = sweep.parameters.map((name, at) => {
    const values = levels(
      configs.map((config, place) => ({ place, config })),
      at,
    ).filter((value) => value !== null);
    return { name, values };
  });
  const given = all.filter(({ values }) => values.length > 0);
  return {
    words: given.map(({ name, values }) => `--space ${name}=${values.join(",")}`).join(" "),
    count: given.reduce((product, { values }) => product * values.length, 1),
  };
}

/** "BLOCK=128, num_warps=4". */
export function configWords(sweep: SweepData, config: ConfigData): string {
  const given = sweep.parameters.flatMap((name, at) =>
    config.values[at] == null ? [] : [`${name}=${config.values[at]}`],
  );
  return given.join(", ") || "no parameters";
}

export const STANDING: Readonly<Record<ConfigData["standing"], { mark: string; words: string }>> = {
  best: { mark: "★", words: "the fastest" },
  tied: { mark: "≈", words: "in a tie with the fastest" },
  behind: { mark: "", words: "" },
  candidate: { mark: "★", words: "one of those to measure first" },
  untimed: { mark: "", words: "not timed" },
  dropped: { mark: "✖", words: "dropped" },
};

/** Everything that is known of a config, as names and words. */
export function factsOf(config: ConfigData): [string, string][] {
  const facts: [string, string][] = [];
  const add = (name: string, words: string): void => void (words && facts.push([name, words]));
  if (config.us !== null) {
    const quartiles =
      config.lower !== null && config.upper !== null
        ? ` (${numberWords(config.lower)} to ${numberWords(config.upper)})`
        : "";
    add("time", `${numberWords(config.us)} us${quartiles}, ${config.runs} runs`);
  }
  if (config.estimate !== null) add("estimate", `${numberWords(config.estimate)} us`);
  add(
    "rate",
    [
      config.gb_per_s === null ? "" : `${numberWords(config.gb_per_s)} GB/s`,
      config.tflop_per_s === null ? "" : `${numberWords(config.tflop_per_s)} TFLOP/s`,
    ]
      .filter(Boolean)
      .join(", "),
  );
  if (config.registers !== null)
    add(
      "registers",
      `${config.registers}${config.spills ? `, ${numberWords(config.spills)} bytes spilled` : ""}`,
    );
  if (config.shared !== null) add("shared memory", `${config.shared.toLocaleString("en")} bytes`);
  if (config.occupancy !== null)
    add(
      "occupancy",
      `${percentWords(config.occupancy)}${config.limited_by ? `, limited by ${config.limited_by}` : ""}`,
    );
  add("matrix", config.matrix);
  add("same result as", config.checked);
  add("not checked", config.unchecked);
  add("dropped", droppedWords(config));
  return facts;
}
