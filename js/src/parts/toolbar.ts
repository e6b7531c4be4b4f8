// What the toolbars of views have in common: buttons that copy.
import { button } from "../dom";

/** How long a button says that it has copied, in milliseconds. */
const SAID = 1600;

/** A button that copies a text, and says so. */
export function copyButton(words: string, title: string, text: () => string): HTMLButtonElement {
  const made = button(words, title, () => {
    void copy(text()).then((done) => {
      made.textContent = done ? "Copied" : "Press Ctrl+C";
      setTimeout(() => (made.textContent = words), SAID);
    });
  });
  return made;
}

/** Copy a text; a page that may not use the clipboard selects it and asks the browser. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.style.cssText = "position:fixed;opacity:0";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
