// Long work on the page's own thread, done a slice at a time: between two slices the page paints and hears its reader.

/** Work that offers to be interrupted wherever it yields: often enough that what lies between takes a few milliseconds. */
export type Work<Result> = Generator<void, Result, void>;

/** Milliseconds of one slice: less than a reader notices. */
const SLICE = 20;

export class Sliced<Result> {
  private found: { result: Result } | null = null;

  constructor(
    private readonly work: Work<Result>,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** The result; null while the work is not finished. */
  get result(): Result | null {
    return this.found === null ? null : this.found.result;
  }

  /** Go on for a slice; whether the work is finished. */
  slice(): boolean {
    const end = this.now() + SLICE;
    while (this.found === null) {
      const step = this.work.next();
      if (step.done) this.found = { result: step.value };
      else if (this.now() >= end) return false;
    }
    return true;
  }

  /** Go on after other work of the page, until this is finished or no one wants it any more: it can be taken up again where it stopped. */
  async finish(isWanted: () => boolean): Promise<void> {
    await nextTask();
    while (isWanted() && !this.slice()) await nextTask();
    await nextTask();
  }
}

/** The result of work that is not interrupted. */
export function atOnce<Result>(work: Work<Result>): Result {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

function nextTask(): Promise<void> {
  return new Promise((go) => setTimeout(go));
}
