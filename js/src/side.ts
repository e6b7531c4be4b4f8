// One compilation of the explorer's data, with what is needed of it repeatedly.
import type { IrSide, PassData, TextData } from "./data";
import { SourceMap } from "./source_map";

/** Where texts that the data does not hold come from. */
export interface Sources {
  /** A text that traveled as a separate part. */
  part(number: number): Promise<string>;
  /** A text that was left out; rejects where no one answers. */
  fetch(side: number, text: number): Promise<string>;
}

/** A text, split into lines, with the number that each line has in the full text. */
export class Text {
  private split: string[] | null = null;
  private full: Int32Array | null = null;
  private coming: Promise<string> | null = null;

  constructor(
    readonly key: string,
    readonly data: TextData,
    private content: string | null,
    private readonly fetch: () => Promise<string>,
  ) {}

  get isHere(): boolean {
    return this.content !== null;
  }

  /** Whether the text is left out of the data: bringing it takes a kernel. */
  get isAway(): boolean {
    return this.content === null && this.data.part === 0;
  }

  async load(): Promise<void> {
    if (this.content !== null) return;
    this.coming ??= this.fetch();
    try {
      this.content = await this.coming;
    } finally {
      this.coming = null;
    }
  }

  get text(): string {
    return this.content ?? "";
  }

  get lines(): readonly string[] {
    return (this.split ??= this.text.split("\n"));
  }

  /** The number in the full text of a shown line (both from 1). */
  number(shown: number): number {
    return this.numbers()[shown - 1] ?? shown;
  }

  /** The shown line that has a number in the full text; 0 where that line is not shown. */
  shown(number: number): number {
    const numbers = this.numbers();
    let low = 0;
    let high = numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (numbers[middle]! < number) low = middle + 1;
      else high = middle;
    }
    return numbers[low] === number ? low + 1 : 0;
  }

  private numbers(): Int32Array {
    if (this.full === null) {
      this.full = new Int32Array(this.lines.length);
      let number = 1;
      let skip = 0;
      for (let shown = 0; shown < this.full.length; shown++) {
        while (this.data.skipped[skip] === number) {
          skip++;
          number++;
        }
        this.full[shown] = number++;
      }
    }
    return this.full;
  }
}

export class Side {
  readonly map: SourceMap;
  readonly texts: Text[];
  private readonly words = new Map<string, string>();
  private readonly bars = new Map<string, ReadonlyMap<number, number>>();

  constructor(
    readonly number: number,
    readonly data: IrSide,
    sources: Sources,
  ) {
    this.map = new SourceMap(data.map);
    this.texts = data.texts.map(
      (text, index) =>
        new Text(`${number}/${index}`, text, text.content, () =>
          text.part > 0 ? sources.part(text.part) : sources.fetch(number, index),
        ),
    );
    for (const layout of data.layouts)
      this.words.set(`${layout.shape} ${layout.encoding}`, layout.words);
  }

  stage(name: string): Text | null {
    const found = this.data.stages.find((stage) => stage.name === name);
    return found === undefined ? null : this.texts[found.text]!;
  }

  pass(number: number): PassData | null {
    return this.data.passes[number] ?? null;
  }

  /** A layout in words; "" for one that the finished TTGIR has not. */
  layoutWords(shape: string, encoding: string): string {
    return this.words.get(`${shape} ${encoding}`) ?? "";
  }

  /** A metric carried to the lines of another text: line of the full text -> the sum over what was made from it. */
  metric(name: string, place: string): ReadonlyMap<number, number> {
    const key = `${name} ${place}`;
    let found = this.bars.get(key);
    if (found === undefined) {
      found = this.carried(name, place);
      this.bars.set(key, found);
    }
    return found;
  }

  private carried(name: string, place: string): ReadonlyMap<number, number> {
    const sums = new Map<number, number>();
    const metric = this.data.metrics.find((one) => one.name === name);
    if (metric === undefined) return sums;
    for (const [line, value] of Object.entries(metric.values)) {
      for (const there of this.map.lines(metric.stage, place, Number(line))) {
        sums.set(there, (sums.get(there) ?? 0) + value);
      }
    }
    return sums;
  }
}
