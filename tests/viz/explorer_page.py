"""What tests of the explorer's page ask it: panes, lines, what screen readers and keys get."""

import time
from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

_FOCUSED = """async root => {
  const one = document.activeElement;
  if (!root.contains(one)) return null;
  const outlined = one.closest(".cm-editor") ?? one;
  const isOutlined = () => { const style = getComputedStyle(outlined); return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0; };
  const end = performance.now() + 2000;
  while (!isOutlined() && performance.now() < end) await new Promise((go) => setTimeout(go, 20));
  one.dataset.reached = "";
  return [`${one.tagName.toLowerCase()}.${one.className} ${one.getAttribute("aria-label") ?? one.textContent.slice(0, 20)}`, isOutlined()];
}"""
"""What has the focus, and whether it shows it:
CodeMirror marks its editor a moment after the event."""


def soon(holds: Callable[[], bool]) -> bool:
    """Whether something holds within ten seconds, where no expectation of Playwright fits."""
    end = time.monotonic() + 10
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def pane(page: Page, number: int) -> Locator:
    return page.locator(".kl-pane").nth(number)


def line_with(where: Locator, text: str) -> Locator:
    return where.locator(".cm-line", has_text=text).first


def click_the_store(view: Locator) -> Locator:
    """Show three stages and click the store: the machine code's addition is lit too. The panes."""
    view.press("3")
    panes = view.locator(".kl-pane")
    expect(panes).to_have_count(3)
    panes.nth(0).locator(".cm-line", has_text="tl.store").click(position={"x": 60, "y": 6})
    # Some lit lines are in sight; the addition is farther down, and lines off the screen need not
    # be drawn.
    panes.nth(2).locator(".cm-scroller").evaluate(
        "one => { one.scrollTop = one.scrollHeight / 2; }"
    )
    expect(panes.nth(2).locator(".kl-lit", has_text="FADD").first).to_be_visible()
    return panes


def lit_numbers(where: Locator) -> set[int]:
    """The numbers beside the lit lines on the screen: gutter and text have the same order."""
    found: list[int] = where.evaluate(
        """pane => {
          const top = (one) => Math.round(one.getBoundingClientRect().top);
          const lit = new Set([...pane.querySelectorAll(".cm-line.kl-lit")].map(top));
          return [...pane.querySelectorAll(".cm-lineNumbers .cm-gutterElement")].filter((one) => lit.has(top(one))).map((one) => Number(one.textContent));
        }"""
    )
    return set(found)


def shown_numbers(where: Locator) -> set[int]:
    return {
        int(text)
        for text in where.locator(".cm-lineNumbers .cm-gutterElement").all_inner_texts()
        if text.strip()
    }


def stops_of_tab(page: Page, most: int = 60) -> list[tuple[str, bool]]:
    """What Tab goes to inside the view, in order, and whether each shows that it has the focus."""
    root = page.locator(".kl-root")
    root.focus()
    found = []
    for _ in range(most):
        page.keyboard.press("Tab")
        stop = root.evaluate(_FOCUSED)
        if stop is None:
            break
        found.append((stop[0], stop[1]))
    return found
