// Frames of live views have the theme of the page around them, also when it is changed.
function themeOfPage() {
  const theme = document.body.dataset.theme;
  return theme === "dark" || theme === "light" ? theme : "";
}

function showViews() {
  const frames = [...document.querySelectorAll("iframe[data-page]")];
  for (const frame of frames) frame.src = `${frame.dataset.page}#${themeOfPage()}`;
  const tell = () => frames.forEach((frame) => frame.contentWindow.postMessage({ theme: themeOfPage() }, "*"));
  new MutationObserver(tell).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
}

// Every block of code has a button that copies it.
function addCopyButtons() {
  for (const block of document.querySelectorAll("div.highlight")) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "copy", textContent: "Copy" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("pre").textContent.trimEnd());
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.append(button);
  }
}

addEventListener("DOMContentLoaded", showViews);
addEventListener("DOMContentLoaded", addCopyButtons);
