// The bundle's door: what a widget (anywidget's conventions) and a self-contained page call.
import "./style.css";
import type { ViewData } from "./data";
import { element } from "./dom";
import { Explorer, type Host } from "./explorer";
import { LayoutExplorer } from "./layout_view";
import { StepperExplorer } from "./stepper";
import { followTheme } from "./theme";
import type { Sources } from "./side";
import { unpack, type Unpacked } from "./unpack";

interface Drawn {
  destroy(): void;
}

function drawn(dom: HTMLElement, data: ViewData, host: Host, numbers: ArrayBuffer): Drawn {
  switch (data.kind) {
    case "ir": return new Explorer(dom, data, host);
    case "layout": return new LayoutExplorer(dom, data);
    case "steps": return new StepperExplorer(dom, data, numbers);
  }
}

/** Draw a view into an element; it goes when the signal aborts. */
function mount(el: HTMLElement, { data, part, numbers }: Unpacked, fetch: Sources["fetch"], signal: AbortSignal): void {
  const dom = element("div", { class: `kl-root kl-${data.kind}`, role: "region", tabindex: "-1", "aria-label": data.title, "data-lm-suppress-shortcuts": "true" });
  followTheme(dom, signal);
  el.append(dom);
  const found = el.getRootNode();
  const root = found instanceof ShadowRoot ? found : document;
  const view = drawn(dom, data, { sources: { part, fetch }, root }, numbers);
  dom.dataset["ready"] = "true";
  signal.addEventListener("abort", () => {
    view.destroy();
    dom.remove();
  });
}

// A self-contained page

/** Draw a view from the packed data of a page, which has every text. */
async function mountPacked(el: HTMLElement, bytes: Uint8Array): Promise<void> {
  const nobody = (): Promise<string> => Promise.reject(new Error("a page has no kernel"));
  mount(el, await unpack(bytes), nobody, new AbortController().signal);
}

// A widget

interface Model {
  get(key: "data"): DataView;
  on(event: "msg:custom", listener: (message: Answer) => void): void;
  off(event: "msg:custom", listener: (message: Answer) => void): void;
  send(content: unknown): void;
}

interface Answer {
  kind: string;
  request: number;
  text?: string;
  problem?: string;
}

/** How long a kernel may take to answer, in milliseconds; a busy one answers after its cell. */
const PATIENCE = 20_000;

let requests = 0;

/** Ask the kernel for a text that the data left out. */
function asking(model: Model): Sources["fetch"] {
  return (side, text) =>
    new Promise((resolve, reject) => {
      const request = ++requests;
      const finish = (): void => {
        clearTimeout(timer);
        model.off("msg:custom", answered);
      };
      const answered = (answer: Answer): void => {
        if (answer.kind !== "text" || answer.request !== request) return;
        finish();
        if (answer.text === undefined) reject(new Error(answer.problem ?? "it knows no such text"));
        else resolve(answer.text);
      };
      const timer = setTimeout(() => {
        finish();
        reject(new Error(`nothing came within ${PATIENCE / 1000} seconds`));
      }, PATIENCE);
      model.on("msg:custom", answered);
      model.send({ kind: "text", request, side, text });
    });
}

async function render({ model, el, signal }: { model: Model; el: HTMLElement; signal?: AbortSignal }): Promise<(() => void) | undefined> {
  const own = new AbortController();
  signal?.addEventListener("abort", () => own.abort());
  const packed = model.get("data");
  const unpacked = await unpack(new Uint8Array(packed.buffer, packed.byteOffset, packed.byteLength));
  mount(el, unpacked, asking(model), own.signal);
  return signal === undefined ? () => own.abort() : undefined;
}

export default { render, mountPacked };
