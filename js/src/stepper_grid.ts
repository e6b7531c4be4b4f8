// The programs of the launch on a map: which were traced, which one the step is of.
import { choice, element } from "./dom";
import type { StepperView } from "./data";

type Program = readonly [number, number, number];

const MOST_CELLS = 1 << 18;
const FOLD = 64;
const SPACE = 260;

export class GridMap {
  readonly dom = element("div", { class: "kl-programs" });
  private readonly words = element("span", { class: "kl-soft" });
  private readonly canvas = element("canvas", { role: "img", "aria-label": "Map of the programs" });
  private readonly picker: HTMLSelectElement | null;
  private readonly columns: number;
  private readonly rows: number;
  private readonly cell: number;
  private readonly traced: ReadonlySet<number>;
  private current = -1;

  /** `onpick` hears which program was chosen. */
  constructor(
    private readonly data: StepperView,
    onpick: (program: Program) => void,
  ) {
    const [x, y, z] = data.grid;
    const isLine = y * z === 1;
    this.columns = isLine ? Math.min(x, FOLD) : x;
    this.rows = isLine ? Math.ceil(x / this.columns) : y * z;
    this.cell = Math.max(1, Math.min(16, Math.floor(SPACE / Math.max(this.columns, this.rows))));
    this.traced = new Set(data.programs.map((one) => this.place(one)));
    const options = data.programs.map((one) => ({
      value: one.join(","),
      words: `program (${one.join(", ")})`,
    }));
    this.picker =
      options.length > 1
        ? choice("Program", options, options[0]!.value, (value) =>
            onpick(value.split(",").map(Number) as unknown as Program),
          )
        : null;
    this.dom.append(
      element(
        "div",
        { class: "kl-pane-head" },
        element("span", {}, "Programs"),
        ...(this.picker === null ? [] : [this.picker]),
        this.words,
      ),
    );
    if (this.rows * this.columns > MOST_CELLS || x * y * z < 2) return;
    this.canvas.width = this.columns * this.cell;
    this.canvas.height = this.rows * this.cell;
    this.canvas.addEventListener("click", (event) => {
      const place =
        Math.floor(event.offsetY / this.cell) * this.columns +
        Math.floor(event.offsetX / this.cell);
      if (place >= 0 && place < x * y * z)
        onpick([place % x, Math.floor(place / x) % y, Math.floor(place / (x * y))]);
    });
    this.dom.append(element("div", { class: "kl-map" }, this.canvas));
  }

  show(program: Program): void {
    const place = this.place(program);
    if (place === this.current) return;
    this.current = place;
    const { grid, programs } = this.data;
    this.words.textContent = `(${program.join(", ")}) of ${grid.join(" × ")}, ${programs.length.toLocaleString("en")} traced`;
    if (this.picker !== null) this.picker.value = program.join(",");
    this.draw();
  }

  draw(): void {
    const context = this.canvas.getContext("2d");
    if (context === null || this.current < 0) return;
    const style = getComputedStyle(this.dom);
    const inks = ["--kl-line", "--kl-changed", "--kl-mark"].map((name) =>
      style.getPropertyValue(name),
    );
    const [x, y, z] = this.data.grid;
    const side = this.cell > 2 ? this.cell - 1 : this.cell;
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    for (let place = 0; place < x * y * z; place++) {
      context.fillStyle = inks[place === this.current ? 2 : this.traced.has(place) ? 1 : 0]!;
      context.fillRect(
        (place % this.columns) * this.cell,
        Math.floor(place / this.columns) * this.cell,
        side,
        side,
      );
    }
  }

  private place([x, y, z]: Program): number {
    return (z * this.data.grid[1] + y) * this.data.grid[0] + x;
  }
}
