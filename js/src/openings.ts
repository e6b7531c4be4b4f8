// The IR of configs: what the data holds, what the notebook's kernel compiles on request, and two of them side by side.
import type { IrView, PassPairData, TuningView } from "./data";
import type { KernelRequest } from "./kernel";
import type { Sources } from "./side";
import { unpack } from "./unpack";

/** An explorer's data, and where its long texts are. */
export interface Opened {
  data: IrView;
  sources: Sources;
}

export class Openings {
  private readonly found = new Map<number, Opened>();
  private readonly pairs = new Map<string, readonly PassPairData[]>();

  /** `bytes` reads a part of the data; `request` sends a request to the kernel, and is null where there is none. */
  constructor(
    private readonly data: TuningView,
    private readonly bytes: (part: number) => Promise<ArrayBuffer>,
    private readonly request: KernelRequest | null,
  ) {
    for (const { left, right, pairs } of data.pairs) this.pairs.set(`${left} ${right}`, pairs);
  }

  isHere(place: number): boolean {
    return this.found.has(place) || this.data.opened.some((one) => one.config === place);
  }

  /** Why no config's IR can be had, and what to do about it; null where that of some can. */
  whyNone(): string | null {
    const reasons = this.data.configs.map((_, place) => this.whyNot([place]));
    if (reasons.length === 0 || reasons.includes(null)) return null;
    const unknown = this.data.sweeps.find(({ knows_kernel }) => !knows_kernel);
    if (unknown !== undefined)
      return `No config's IR is here: this sweep was read from a file. ${unknown.how_to_open}`;
    return `No config's IR was recorded in this page, which has no kernel that could compile one. ${this.data.sweeps.length > 1 ? "tunings" : "tuning"}.show(compilations=[...]).to_html("sweep.html") writes one that holds it.`;
  }

  /** Why the IR of some configs cannot be had, and what to do about it; null where it can. */
  whyNot(places: readonly number[]): string | null {
    const missing = places.filter((place) => !this.isHere(place));
    if (missing.length === 0) return null;
    const config = this.data.configs[missing[0]!]!;
    const sweep = this.data.sweeps[config.sweep]!;
    if (!sweep.knows_kernel) {
      return `The IR of config ${config.number} is not here: this sweep was read from a file. ${sweep.how_to_open}`;
    }
    if (this.request !== null) return null;
    const numbers = this.data.opened.map((one) => this.data.configs[one.config]!.number).join(", ");
    const held = numbers ? `the IR of config ${numbers}, marked ◆` : "no config's IR";
    const several = this.data.sweeps.length > 1;
    const wish = several ? `(${config.sweep}, ${config.number})` : String(config.number);
    return `The IR of config ${config.number} was not recorded: this page holds ${held}, and has no kernel that could compile others. ${several ? "tunings" : "tuning"}.show(compilations=[${wish}]).to_html("sweep.html") writes one that holds it.`;
  }

  /** The explorer of one config, or of two side by side; `heard` is called when the kernel begins. */
  async open(places: readonly number[], heard: () => void): Promise<Opened> {
    const each: Opened[] = [];
    for (const place of places) each.push(await this.one(place, heard));
    const [left, right] = each;
    if (left === undefined) throw new Error("no config is chosen");
    if (right === undefined) return left;
    for (const [at, one] of each.entries()) {
      if (one.data.sides[0]!.failure)
        throw new Error(
          `${this.name(places[at]!)} does not compile, so there is nothing to compare it with.`,
        );
    }
    return sideBySide(
      left,
      right,
      places.map((place) => this.name(place)),
      await this.pair(places[0]!, places[1]!, heard),
    );
  }

  private name(place: number): string {
    const { sweep, number } = this.data.configs[place]!;
    return this.data.sweeps.length > 1
      ? `config ${number} of ${this.data.sweeps[sweep]!.name}`
      : `config ${number}`;
  }

  private async one(place: number, heard: () => void): Promise<Opened> {
    const known = this.found.get(place);
    if (known !== undefined) return known;
    const here = this.data.opened.find((one) => one.config === place);
    const packed =
      here !== undefined
        ? new Uint8Array(await this.bytes(here.part))
        : await this.fetched(place, heard);
    const { data, part } = await unpack(packed);
    if (data.kind !== "ir") throw new Error(`the kernel sent a view of kind ${data.kind}`);
    const fetch = async (_: number, text: number): Promise<string> =>
      String((await this.requested("config text", { config: place, text })).content["text"]);
    const made = { data, sources: { part, fetch } };
    this.found.set(place, made);
    return made;
  }

  private async fetched(config: number, heard: () => void): Promise<Uint8Array> {
    const buffer = (await this.requested("config", { config }, heard)).buffers[0];
    if (buffer === undefined) throw new Error("the kernel sent no data");
    return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  }

  private async pair(
    left: number,
    right: number,
    heard: () => void,
  ): Promise<readonly PassPairData[]> {
    const known = this.pairs.get(`${left} ${right}`) ?? turned(this.pairs.get(`${right} ${left}`));
    if (known !== undefined) return known;
    const answer = await this.requested("pair", { left, right }, heard);
    const pairs = answer.content["pairs"] as readonly PassPairData[];
    this.pairs.set(`${left} ${right}`, pairs);
    return pairs;
  }

  private requested(...request: Parameters<KernelRequest>): ReturnType<KernelRequest> {
    if (this.request === null) return Promise.reject(new Error("a page has no kernel"));
    return this.request(...request);
  }
}

/** The same passes with the sides changed over. */
export function turned(pairs: readonly PassPairData[] | undefined): PassPairData[] | undefined {
  return pairs?.map((pair) => ({ ...pair, left: pair.right, right: pair.left }));
}

/** The second side's long texts count on from here. */
const SECOND = 1_000_000;

/** Two explorers' data as that of a comparison. */
export function sideBySide(
  left: Opened,
  right: Opened,
  names: readonly string[],
  pairs: readonly PassPairData[],
): Opened {
  const [first, second] = [left.data.sides[0]!, right.data.sides[0]!];
  const texts = second.texts.map((text) =>
    text.part > 0 ? { ...text, part: text.part + SECOND } : text,
  );
  return {
    data: {
      kind: "ir",
      metric: left.data.metric,
      title: `${first.kernel} for ${first.target}: ${names.join(" and ")}`,
      pairs,
      sides: [
        { ...first, name: names[0]! },
        { ...second, name: names[1]!, texts },
      ],
      pass_notes: { ...left.data.pass_notes, ...right.data.pass_notes },
    },
    sources: {
      part: (number) =>
        number > SECOND ? right.sources.part(number - SECOND) : left.sources.part(number),
      fetch: (side, text) => (side === 0 ? left : right).sources.fetch(0, text),
    },
  };
}
