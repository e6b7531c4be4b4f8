"""What someone else's file names on this machine is not read: its lines are not shown, and links in
folders are not followed.
"""

from __future__ import annotations

import gzip
import json
import linecache
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kernellab
from kernellab.errors import ArchiveError, SourcePosition, source_line, source_lines
from kernellab.graphs.report import GraphReport
from kernellab.profiling.profiles.records import ProfiledLine
from tests.kernels import basic
from tests.support import fuzzed_files
from tests.support.made_profiles import made_profile
from tests.support.source_files import ROOT

SECRET = "s3cret-0f-the-reader"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the reader's, any line of which is a secret."""
    file = tmp_path / "key.py"
    file.write_text(f"def kernel(): # {SECRET}\n" * 500)
    return file


@pytest.mark.parametrize("how", ["path", "link", "environment", "relative", "null", "parent"])
def test_lines_of_other_files_are_not_read(
    secret: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (secret.parent / "link.py").symlink_to(secret)
    monkeypatch.chdir(secret.parent)
    monkeypatch.setenv("A_SECRET", SECRET)
    file = {
        "path": str(secret),
        "link": str(secret.parent / "link.py"),
        "environment": "/proc/self/environ",
        "relative": secret.name,
        "null": f"{secret}\0",
        "parent": f"{ROOT}/kernellab/../../../../../..{secret}",
    }[how]
    assert source_lines(file) == []
    assert source_line(file, 1) == ""
    assert SourcePosition(file, 1, 3).excerpt() == ""
    assert file not in linecache.cache


def test_lines_of_imported_files_are_read() -> None:
    assert source_lines(basic.__file__)
    assert source_line(str(ROOT / "kernellab/loading.py"), 1)


def shown(opened: Any, folder: Path) -> str:
    """All that a reader may pass on: the text, the card, the page."""
    texts = [str(opened), json.dumps(opened._repr_mimebundle_(), default=str)]
    for name in ("show", "explore"):
        view = getattr(opened, name, str)()
        if hasattr(view, "to_html"):
            texts.append(view.to_html(folder / "page.html").read_text())
    return "\n".join(texts)


def profile(secret: str, file: Path) -> Any:
    made = made_profile()
    lines = tuple(ProfiledLine(secret, n, "tt.load", 0.1, kernel="k") for n in (1, 2, 3))
    kernels = tuple(replace(kernel, file=secret) for kernel in made.kernels)
    return made_profile(kernels=kernels, line_records=lines).save(file)


def compilation(secret: str, file: Path) -> Any:
    data = json.loads(gzip.decompress(fuzzed_files.KINDS["compilation"].content()))
    data["source"] = f"def kernel(): # {SECRET[:3]}"
    text = json.dumps(data)
    own = re.escape(str(ROOT)) + r'[^"\\ ]*\.py'
    assert re.search(own, text)
    file.write_bytes(gzip.compress(re.sub(own, secret, text).encode()))
    return file


def report(secret: str, file: Path) -> Any:
    capture = kernellab.load(ROOT / "tests/viz/two_blocks.klgraph").capture
    GraphReport(replace(capture, sources={})).save(file)
    text = gzip.decompress(file.read_bytes()).decode().replace("model.py", secret)
    file.write_bytes(gzip.compress(text.encode()))
    return file


SAVED: dict[str, Callable[[str, Path], Any]] = {
    "profile": profile,
    "compilation": compilation,
    "report": report,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(SAVED))
def test_what_a_record_shows_has_no_line_of_other_files(
    tmp_path: Path, secret: Path, kind: str
) -> None:
    for named in (str(secret), "/proc/self/environ"):
        opened = kernellab.load(SAVED[kind](named, tmp_path / "file"))
        words = shown(opened, tmp_path)
        assert SECRET not in words
        assert f"PATH={os.environ['PATH']}"[:40] not in words


# Links in folders


GRAPH = "torch_compile_debug/run_1/model__0_inference_0.0"
LINKS = [
    *(f"cache/add.{stage}" for stage in ("ttir", "ttgir", "llir", "ptx", "cubin", "json")),
    *(f"{GRAPH}/{name}.py" for name in ("fx_graph_readable", "output_code")),
    *(f"{GRAPH}/{name}_fusion.txt" for name in ("ir_pre", "ir_post")),
    "torch_compile_debug/run_1",
    "logs/dedicated_log_torch_trace_1.log",
]


@pytest.mark.parametrize("link", LINKS)
def test_a_link_in_a_folder_is_not_followed(tmp_path: Path, secret: Path, link: str) -> None:
    file, there = tmp_path / link, tmp_path / "there"
    file.parent.mkdir(parents=True)
    metadata = json.dumps({**fuzzed_files._METADATA, "name": "add"})
    if link == "cache/add.json":
        there.write_text(metadata)
    elif link.startswith("cache"):
        (file.parent / "add.json").write_text(metadata)
    elif link.startswith(GRAPH) and "readable" not in link:
        (file.parent / "fx_graph_readable.py").write_text("")
    elif link.endswith("run_1"):
        there.mkdir()
        (there / "output_code.py").write_text(SECRET)
    file.symlink_to(there if there.exists() else secret)
    with pytest.raises(ArchiveError) as caught:
        kernellab.load(tmp_path / link.partition("/")[0])
    assert there.is_dir() or file.name in str(caught.value)
    assert SECRET not in str(caught.value)
