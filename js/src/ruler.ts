// A strip beside a text that shows where its lit lines are, those off the screen too.
import { element } from "./dom";

const SVG = "http://www.w3.org/2000/svg";
/** The strip's rows: lines nearer together than this are one mark. */
const ROWS = 300;

export class Ruler {
  readonly dom: HTMLElement;
  private readonly marks = document.createElementNS(SVG, "path");
  private lines = 1;

  /** `go` is given a line (as shown, from 1) when the strip is clicked. Keys have another way there, so the strip is left out for readers of the screen. */
  constructor(go: (line: number) => void) {
    const picture = document.createElementNS(SVG, "svg");
    picture.setAttribute("viewBox", `0 0 1 ${ROWS}`);
    picture.setAttribute("preserveAspectRatio", "none");
    picture.append(this.marks);
    this.dom = element("div", {
      class: "kl-ruler",
      "aria-hidden": "true",
      title: "Where the lit lines are",
      hidden: true,
    });
    this.dom.append(picture);
    this.dom.addEventListener("click", (event) => {
      const box = this.dom.getBoundingClientRect();
      go(
        1 +
          Math.min(
            this.lines - 1,
            Math.floor(((event.clientY - box.top) / box.height) * this.lines),
          ),
      );
    });
  }

  /** Mark these of a text's lines; `needed` says whether there is more of the text than the screen shows. */
  show(lit: readonly number[], lines: number, needed: boolean): void {
    this.lines = lines;
    this.dom.hidden = !needed || lit.length === 0;
    const rows = new Set(
      lit.map((line) => Math.min(ROWS - 1, Math.floor(((line - 1) / lines) * ROWS))),
    );
    this.marks.setAttribute("d", [...rows].map((row) => `M0 ${row}h1v1.4h-1z`).join(""));
  }
}
