// A view of graphs, whose script comes with its data: it is drawn when that is loaded.
import type { GraphView } from "./data";
import { element } from "./dom";
import type { Draw } from "./graph";
import { NO_BARS } from "./metrics";
import type { At, Beside, Seen } from "./tabs";
import { Text } from "./side";
import { anyVisible, lightLines, TextPane } from "./text_pane";

/** The part of the data that is the script. */
const SCRIPT = 1;

/** Each script is loaded once. */
const loaded = new Map<string, Promise<Draw>>();

export class LazyGraph implements Seen {
  private view: Seen | null = null;
  private wanted: At | null = null;
  private isGone = false;

  constructor(
    dom: HTMLElement,
    data: GraphView,
    part: (number: number) => Promise<string>,
    beside: Beside,
    root: Document | ShadowRoot,
  ) {
    drawing(part).then(
      (draw) => {
        if (this.isGone) return;
        this.view = draw(
          dom,
          data,
          { Text, TextPane, anyVisible, lightLines, noBars: NO_BARS },
          part,
          beside,
          root,
        );
        if (this.wanted !== null) this.view.turnTo?.(this.wanted);
        dom.dataset["drawn"] = "true";
      },
      (error: unknown) =>
        dom.append(
          element("div", { class: "kl-failure" }, `The graph cannot be drawn: ${String(error)}`),
        ),
    );
  }

  destroy(): void {
    this.isGone = true;
    this.view?.destroy();
  }

  turnTo(at: At): boolean {
    this.wanted = at;
    return this.view?.turnTo?.(at) ?? true;
  }
}

async function drawing(part: (number: number) => Promise<string>): Promise<Draw> {
  const script = await part(SCRIPT);
  let found = loaded.get(script);
  if (found === undefined) {
    const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    found = import(address)
      .then((module: { default: Draw }) => module.default)
      .finally(() => URL.revokeObjectURL(address));
    loaded.set(script, found);
  }
  return found;
}
