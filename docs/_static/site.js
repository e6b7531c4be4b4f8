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

addEventListener("DOMContentLoaded", showViews);
