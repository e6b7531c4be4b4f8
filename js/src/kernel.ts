// The kernel behind a live view: what is requested of it, and whether it is still there.

/** A widget's model, as anywidget gives it. */
export interface Model {
  get(name: string): unknown;
  on(event: "msg:custom", listener: (message: Message, buffers: readonly DataView[]) => void): void;
  off(
    event: "msg:custom",
    listener: (message: Message, buffers: readonly DataView[]) => void,
  ): void;
  send(content: unknown): void;
  widget_manager?: Manager;
}

/** The front end's widget manager; only Jupyter's own gives away its kernel. */
interface Manager {
  get_model?(id: string): Promise<Holder>;
  kernel?: {
    statusChanged?: { connect(listener: (kernel: unknown, status: string) => void): void };
  } | null;
}

/** The model that holds the bundle, one a kernel, as the front end's widget manager has it. */
export interface Holder {
  get(name: string): unknown;
  /** False as soon as the front end knows that the kernel is another one; setting it notifies those who listen. */
  comm_live?: boolean;
  on(event: "comm_live_update", listener: () => void): void;
  off(event: "comm_live_update", listener: () => void): void;
}

interface Message {
  kind: string;
  request: number;
  problem?: string;
  [name: string]: unknown;
}

export interface Answer {
  content: Readonly<Record<string, unknown>>;
  buffers: readonly DataView[];
}

/** Send a request; `heard` is called when the kernel begins with it, which may take `patience` milliseconds. Rejects, with the reason in words, where it cannot be answered, and where no one answers. */
export type KernelRequest = (
  kind: string,
  wishes: Readonly<Record<string, unknown>>,
  heard?: () => void,
  patience?: number,
) => Promise<Answer>;

/** How long a kernel may take to hear, in milliseconds: a busy one hears after its cell; and how long it may then work. */
const PATIENCE = { hear: 20_000, work: 300_000 };

/** No one answers; the message says why. */
export class Silence extends Error {}

const GONE = "the kernel that made this view is gone";

let requests = 0;

/** The model of the bundle; null where the front end does not show a view other models. */
export async function holderOf(model: Model): Promise<Holder | null> {
  try {
    const id = String(model.get("bundle")).replace(/^IPY_MODEL_/, "");
    const holder = (await model.widget_manager?.get_model?.(id)) ?? null;
    if (holder !== null) noticeCrash(model.widget_manager?.kernel, holder);
    return holder;
  } catch {
    return null;
  }
}

const watched = new WeakSet<Holder>();

/** Jupyter cuts the models off a kernel that its user restarts, but not off one that died and that the server started again: this does. */
function noticeCrash(kernel: Manager["kernel"], holder: Holder): void {
  if (watched.has(holder)) return;
  watched.add(holder);
  kernel?.statusChanged?.connect((_, status) => {
    if (status === "autorestarting" || status === "dead") holder.comm_live = false;
  });
}

/** Whether the kernel is known to be gone: restarted, shut down, or never there. */
export function isGone(holder: Holder | null): boolean {
  return holder?.comm_live === false;
}

/** Call back whenever the kernel goes or comes back, until the signal aborts. */
export function followKernel(
  holder: Holder | null,
  listener: () => void,
  signal: AbortSignal,
): void {
  holder?.on("comm_live_update", listener);
  signal.addEventListener("abort", () => holder?.off("comm_live_update", listener));
}

export function requester(model: Model, holder: Holder | null): KernelRequest {
  return async (kind, wishes, heard, patience = PATIENCE.hear) => {
    if (isGone(holder)) throw new Silence(GONE);
    const request = ++requests;
    const finished = new AbortController();
    const answer = new Promise<Answer>((resolve, reject) => {
      const giveUp = (waited: number): void =>
        reject(
          new Silence(
            `the kernel did not answer within ${waited / 1000} seconds: it is busy, or another one by now`,
          ),
        );
      let timer = setTimeout(giveUp, patience, patience);
      const listen = (message: Message, buffers: readonly DataView[]): void => {
        if (message.request !== request) return;
        if (message.kind === "heard") {
          clearTimeout(timer);
          timer = setTimeout(giveUp, PATIENCE.work, PATIENCE.work);
          heard?.();
        } else if (message.problem === undefined) resolve({ content: message, buffers });
        else reject(new Error(message.problem));
      };
      finished.signal.addEventListener("abort", () => {
        clearTimeout(timer);
        model.off("msg:custom", listen);
      });
      followKernel(holder, () => isGone(holder) && reject(new Silence(GONE)), finished.signal);
      model.on("msg:custom", listen);
      try {
        model.send({ ...wishes, kind, request });
      } catch {
        // VS Code closes the connection of a kernel that was restarted, and notifies no model.
        if (holder !== null) holder.comm_live = false;
        reject(new Silence(GONE));
      }
    });
    return answer.finally(() => finished.abort());
  };
}
