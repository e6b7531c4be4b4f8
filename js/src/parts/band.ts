// A heading on a band in the color of its tone.

import { element } from "../dom";
import { marked, type Tone, toneClass } from "./tone";

export function band(title: string, subtitle: string, tone: Tone): HTMLElement {
  return element(
    "div",
    { class: `kl-head${tone === "" ? "" : " kl-banner"}${toneClass(tone)}` },
    element("b", {}, marked(title, tone)),
    element("span", { class: "kl-soft" }, subtitle),
  );
}
