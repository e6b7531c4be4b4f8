"""Exercises in JupyterLab: a click inserts task and stub; an answer shows its steps and hints."""

import pytest
from playwright.sync_api import expect

from kernellab.workshop.exercise import EXERCISES
from tests.viz.jupyter import show_cell, view

pytestmark = pytest.mark.slow

WRONG = """@triton.jit
def add_one(x_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(z_ptr + lanes, tl.load(x_ptr + lanes) + 2)
"""
CELLS = [
    "%load_ext kernellab\nimport torch, triton, triton.language as tl, kernellab",
    f"%%tileexercise add_one\n{WRONG}",
    "%tileexercise",
]
ANSWER, LIST = 1, 2


def test_the_exercises_are_a_page_of_cards_and_an_answer_is_a_ladder(chromium, server) -> None:
    with server.run(chromium, *CELLS) as page:
        answer = view(page, ANSWER, "card")
        expect(answer.locator(".kl-banner")).to_contain_text("✗ Add one", timeout=90_000)
        steps = answer.locator(".kl-tile-value")
        expect(steps).to_have_text(["✓ compiles", "✓ safe", "✗ right", "within budget"])
        hint = answer.locator("details", has_text="Hint 1").locator("td").last
        expect(hint).to_be_hidden()
        answer.get_by_text("Hint 1", exact=True).click()
        expect(hint).to_be_visible()

        exercises = view(page, LIST, "card")
        expect(exercises.locator(".kl-tile")).to_have_count(1 + len(EXERCISES))
        expect(exercises.locator(".kl-tone-warn").last).to_contain_text("safe, 1 answer")
        exercises.get_by_role("button", name="softmax Softmax", exact=True).click()
        inserted = show_cell(page, LIST + 1)
        expect(inserted.locator(".cm-content")).to_contain_text("%tileexercise softmax")
        expect(inserted).to_contain_text("Softmax and norms: Softmax", timeout=60_000)
        stub = show_cell(page, LIST + 2)
        expect(stub.locator(".cm-content")).to_contain_text("def softmax")
