// Light or dark, as the front end is: JupyterLab and Notebook, VS Code, Colab, else the reader's system.
import { inColab } from "./colab";

export type Theme = "light" | "dark";

/** The theme that the place around us has; null where nothing says. */
function declared(): Theme | null {
  const { body, documentElement: root } = document;
  const jupyter = body.dataset["jpThemeLight"];
  if (jupyter !== undefined) return jupyter === "true" ? "light" : "dark";
  const code = body.dataset["vscodeThemeKind"];
  if (code !== undefined) return code.includes("light") ? "light" : "dark";
  if (inColab()) return root.getAttribute("theme") === "dark" ? "dark" : "light";
  const chosen = root.dataset["klTheme"];
  return chosen === "dark" || chosen === "light" ? chosen : null;
}

/** Call back when the theme of a view changes, until the observer is disconnected: what is painted does not follow it. */
export function onTheme(root: Element, changed: () => void): MutationObserver {
  const observer = new MutationObserver(changed);
  observer.observe(root, { attributeFilter: ["data-theme", "data-contrast"] });
  return observer;
}

/** Whether the reader wants more contrast than usual: VS Code's two themes of high contrast, else the reader's system. */
function wantsContrast(system: MediaQueryList): boolean {
  return document.body.dataset["vscodeThemeKind"]?.includes("high-contrast") ?? system.matches;
}

/** Keep an element's `data-theme` and `data-contrast` as the front end's theme is, until the signal aborts. */
export function followTheme(target: HTMLElement, signal: AbortSignal): void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const contrast = matchMedia("(prefers-contrast: more)");
  const apply = (): void => {
    target.dataset["contrast"] = wantsContrast(contrast) ? "more" : "usual";
    target.dataset["theme"] = declared() ?? (system.matches ? "dark" : "light");
  };
  const observer = new MutationObserver(apply);
  for (const place of [document.body, document.documentElement])
    observer.observe(place, { attributes: true });
  for (const wish of [system, contrast]) wish.addEventListener("change", apply, { signal });
  signal.addEventListener("abort", () => observer.disconnect());
  apply();
}
