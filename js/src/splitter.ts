// A bar between two neighbors that a pointer or the arrow keys move.
import { element } from "./dom";

const STEP = 24;
const LEAST = 80;

/** The bar; the neighbor before it gets a width, the one after it what is left. */
export function splitter(label: string): HTMLElement {
  const bar = element("div", {
    class: "kl-splitter",
    role: "separator",
    tabindex: "0",
    "aria-orientation": "vertical",
    "aria-label": label,
    "aria-valuemin": 0,
    "aria-valuemax": 100,
    "aria-valuenow": 50,
  });
  const move = (by: number): void => {
    const before = bar.previousElementSibling as HTMLElement | null;
    const after = bar.nextElementSibling as HTMLElement | null;
    if (before === null || after === null) return;
    const [first, second] = [before.offsetWidth, after.offsetWidth];
    const width = Math.max(LEAST, Math.min(first + second - LEAST, first + by));
    before.style.flex = `${width} ${width} 0`;
    bar.setAttribute("aria-valuenow", String(Math.round((100 * width) / (first + second))));
    after.style.flex = `${first + second - width} ${first + second - width} 0`;
  };
  bar.addEventListener("pointerdown", (down) => {
    bar.setPointerCapture(down.pointerId);
    let at = down.clientX;
    const drag = (event: PointerEvent): void => {
      move(event.clientX - at);
      at = event.clientX;
    };
    bar.addEventListener("pointermove", drag);
    bar.addEventListener("lostpointercapture", () => bar.removeEventListener("pointermove", drag), {
      once: true,
    });
  });
  bar.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    move(event.key === "ArrowLeft" ? -STEP : STEP);
    event.preventDefault();
  });
  return bar;
}
