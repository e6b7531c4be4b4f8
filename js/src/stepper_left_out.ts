// What the data left out to stay small: asked of a live kernel when somebody looks at it.
import type { ElementsData, TensorPart } from "./data";
import type { Ask } from "./kernel";
import type { Whole } from "./stepper_memory";
import type { TraceReader } from "./stepper_trace";

/** So long, in milliseconds, a step has to be looked at before its tiles are asked for. */
const LOOKING = 150;

export class LeftOut {
  private readonly asked = new Set<string>();
  private timer = 0;
  private problem = "";

  /**
   * @param ask asks the kernel; null where there is none, as on a page.
   * @param onvalues hears that tiles have come.
   * @param ontensor hears of a tensor that has come.
   */
  constructor(private readonly reader: TraceReader, private readonly ask: Ask | null, private readonly onvalues: () => void, private readonly ontensor: (number: number, whole: Whole) => void) {}

  /** These values are looked at. */
  look(numbers: Iterable<number>): void {
    clearTimeout(this.timer);
    const wanted = [...numbers].filter((number) => this.reader.data.values[number]!.in_kernel && !this.reader.isFilled(number));
    if (this.ask === null || wanted.length === 0) return;
    this.timer = window.setTimeout(() => wanted.forEach((number) => void this.value(number)), LOOKING);
  }

  /** A tensor's picture is looked at. */
  lookAtTensor(number: number): void {
    if (!this.reader.data.arguments[number]!.in_kernel) return;
    void this.once(`tensor ${number}`, async (ask) => {
      const { content, buffers } = await ask("tensor", { tensor: number });
      this.ontensor(number, { part: content["tensor"] as TensorPart, buffer: copied(buffers) });
    });
  }

  /** Why elements are not here, in words: what was left out, and why it did not come. */
  words(why: string, inKernel: boolean): string {
    if (!inKernel || this.ask === null) return why;
    return this.problem === "" ? `${why}; the kernel is asked for every element` : `${why}, and the kernel did not send it (${this.problem}): run the cell again`;
  }

  destroy(): void {
    clearTimeout(this.timer);
  }

  private value(number: number): Promise<void> {
    return this.once(`value ${number}`, async (ask) => {
      const { content, buffers } = await ask("value", { value: number });
      this.reader.fill(number, content["elements"] as ElementsData, copied(buffers));
      this.onvalues();
    });
  }

  /** Ask, unless it was asked already; what failed may be asked again. */
  private async once(key: string, act: (ask: Ask) => Promise<void>): Promise<void> {
    if (this.ask === null || this.asked.has(key)) return;
    this.asked.add(key);
    try {
      await act(this.ask);
      this.problem = "";
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
      this.asked.delete(key);
      this.onvalues();
    }
  }
}

/** The bytes of a message as a buffer of their own: in the message they begin anywhere, numbers do not. */
function copied([bytes]: readonly DataView[]): ArrayBuffer {
  return bytes === undefined ? new ArrayBuffer(0) : (new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength).slice().buffer as ArrayBuffer);
}
