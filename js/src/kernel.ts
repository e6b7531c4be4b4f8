// What a live view asks the notebook's kernel.

/** A widget's model, as anywidget gives it. */
export interface Model {
  get(key: "data"): DataView;
  on(event: "msg:custom", listener: (message: Message, buffers: readonly DataView[]) => void): void;
  off(event: "msg:custom", listener: (message: Message, buffers: readonly DataView[]) => void): void;
  send(content: unknown): void;
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

/** Send a request; `heard` is called when the kernel begins with it. Rejects where it cannot be answered, and where nobody answers. */
export type Ask = (kind: string, wishes: Readonly<Record<string, unknown>>, heard?: () => void) => Promise<Answer>;

/** How long a kernel may take to hear, in milliseconds: a busy one hears after its cell; and how long it may then work. */
const PATIENCE = { hear: 20_000, work: 300_000 };

let requests = 0;

export function asking(model: Model): Ask {
  return (kind, wishes, heard) =>
    new Promise((resolve, reject) => {
      const request = ++requests;
      const giveUp = (patience: number): void => {
        model.off("msg:custom", listen);
        reject(new Error(`nothing came within ${patience / 1000} seconds`));
      };
      let timer = setTimeout(giveUp, PATIENCE.hear, PATIENCE.hear);
      const listen = (message: Message, buffers: readonly DataView[]): void => {
        if (message.request !== request) return;
        clearTimeout(timer);
        if (message.kind === "heard") {
          timer = setTimeout(giveUp, PATIENCE.work, PATIENCE.work);
          heard?.();
          return;
        }
        model.off("msg:custom", listen);
        if (message.problem === undefined) resolve({ content: message, buffers });
        else reject(new Error(message.problem));
      };
      model.on("msg:custom", listen);
      model.send({ ...wishes, kind, request });
    });
}
