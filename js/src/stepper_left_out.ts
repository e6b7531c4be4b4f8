// What the data left out to stay small: requested of a live kernel when somebody looks at it.
import type { ElementsData, TensorPart } from "./data";
import type { KernelRequest } from "./kernel";
import type { Whole } from "./stepper_memory";
import type { TraceReader } from "./stepper_trace";

/** So long, in milliseconds, a step has to be looked at before its tiles are requested. */
const LOOKING = 150;

export class LeftOut {
  private readonly requested = new Set<string>();
  private timer = 0;
  private problem = "";

  /**
   * @param request sends a request to the kernel; null where there is none, as on a page.
   * @param onvalues hears that tiles have come.
   * @param ontensor hears of a tensor that has come.
   */
  constructor(
    private readonly reader: TraceReader,
    private readonly request: KernelRequest | null,
    private readonly onvalues: () => void,
    private readonly ontensor: (number: number, whole: Whole) => void,
  ) {}

  /** These values are looked at. */
  look(numbers: Iterable<number>): void {
    clearTimeout(this.timer);
    const wanted = [...numbers].filter(
      (number) => this.reader.data.values[number]!.in_kernel && !this.reader.isFilled(number),
    );
    if (this.request === null || wanted.length === 0) return;
    this.timer = window.setTimeout(
      () => wanted.forEach((number) => void this.value(number)),
      LOOKING,
    );
  }

  /** A tensor's picture is looked at. */
  lookAtTensor(number: number): void {
    if (!this.reader.data.arguments[number]!.in_kernel) return;
    void this.once(`tensor ${number}`, async (request) => {
      const { content, buffers } = await request("tensor", { tensor: number });
      this.ontensor(number, { part: content["tensor"] as TensorPart, buffer: copied(buffers) });
    });
  }

  /** Why elements are not here, in words: what was left out, and why it did not come. */
  words(why: string, inKernel: boolean): string {
    if (!inKernel || this.request === null) return why;
    return this.problem === ""
      ? `${why}; every element is requested from the kernel`
      : `${why}, and the kernel did not send it (${this.problem}): run the cell again`;
  }

  destroy(): void {
    clearTimeout(this.timer);
  }

  private value(number: number): Promise<void> {
    return this.once(`value ${number}`, async (request) => {
      const { content, buffers } = await request("value", { value: number });
      this.reader.fill(number, content["elements"] as ElementsData, copied(buffers));
      this.onvalues();
    });
  }

  /** Request it, unless that was done; what failed may be requested again. */
  private async once(key: string, act: (request: KernelRequest) => Promise<void>): Promise<void> {
    if (this.request === null || this.requested.has(key)) return;
    this.requested.add(key);
    try {
      await act(this.request);
      this.problem = "";
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
      this.requested.delete(key);
      this.onvalues();
    }
  }
}

/** The bytes of a message as a separate buffer: in the message they begin anywhere, numbers do not. */
function copied([bytes]: readonly DataView[]): ArrayBuffer {
  return bytes === undefined
    ? new ArrayBuffer(0)
    : (new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength).slice()
        .buffer as ArrayBuffer);
}
