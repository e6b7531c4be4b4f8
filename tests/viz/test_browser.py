"""The tests watch their pages: one that errs, or asks another place for a file, fails its test."""

import pytest

from tests.viz.browser import opened

ELSEWHERE = "https://elsewhere.invalid/x"
BAD = {
    f'<script src="{ELSEWHERE}"></script>': f"asked for {ELSEWHERE}",
    f'<link rel="stylesheet" href="{ELSEWHERE}">': f"asked for {ELSEWHERE}",
    f'<script>fetch("{ELSEWHERE}").catch(() => {{}})</script>': f"asked for {ELSEWHERE}",
    '<script>new WebSocket("wss://elsewhere.invalid/x")</script>': (
        "asked for wss://elsewhere.invalid/x"
    ),
    '<script>console.error("went wrong")</script>': "went wrong",
    '<script>throw new Error("uncaught")</script>': "uncaught",
}


@pytest.mark.slow
def test_what_goes_wrong_in_a_page_fails_its_test(chromium, tmp_path) -> None:
    for html, told in BAD.items():
        file = tmp_path / "page.html"
        file.write_text(f"<!doctype html>{html}")
        with pytest.raises(AssertionError, match=told), opened(chromium, file.as_uri()) as page:
            page.wait_for_timeout(150)
    file.write_text("<!doctype html><script>console.log('fine')</script>")
    with opened(chromium, file.as_uri()) as page:
        page.wait_for_timeout(150)
