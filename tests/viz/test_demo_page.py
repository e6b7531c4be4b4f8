"""The page of `kernellab demo` in a browser."""

import pytest
from playwright.sync_api import expect

from kernellab.cli.demo import small_cases
from kernellab.cli.demo.report import demo_report, run_case
from tests.viz.browser import watched


@pytest.mark.slow
def test_an_explorer_and_a_stepper_of_each_kernel_are_alive(tmp_path, chromium) -> None:
    cases = small_cases()
    file = tmp_path / "demo.html"
    file.write_text(demo_report([run_case(case, repeats=1) for case in cases]))
    with watched(chromium, file.as_uri()) as opened:
        page = opened.page
        for kind in (".kl-ir", ".kl-steps"):
            expect(page.locator(f"{kind}[data-ready]")).to_have_count(len(cases), timeout=60_000)
        page.get_by_role("link", name="dropout, 3,000 fp32").click()
        expect(page.get_by_role("heading", name="dropout, 3,000 fp32")).to_be_in_viewport()
        stepper = page.locator(".kl-steps").first
        number = stepper.get_by_label("Number of the step")
        before = number.input_value()
        stepper.get_by_title("One on (→)").click()
        expect(number).not_to_have_value(before)
