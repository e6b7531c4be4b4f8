// What the reader of this notebook chose last, kept by the browser.

const KEY = "kernellab";

/** A notebook, or a page, by its address. */
function place(): string {
  return `${KEY} ${location.pathname}`;
}

export function recalled(): Readonly<Record<string, unknown>> {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(place()) ?? "{}");
    return typeof found === "object" && found !== null ? (found as Record<string, unknown>) : {};
  } catch {
    return {}; // some front ends keep nothing
  }
}

export function remember(chosen: Readonly<Record<string, unknown>>): void {
  try {
    localStorage.setItem(place(), JSON.stringify({ ...recalled(), ...chosen }));
  } catch {
    // then the next view begins as the first did
  }
}
