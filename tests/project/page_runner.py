"""Runs the code blocks of pages, all in this process: JSON on stdin, what went wrong on stdout.

A page's blocks run in order, as the cells of a notebook, in a folder of its own. A block that
raises is right if the block after it is an output that begins with the error: "Type: words".
"""

import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell


def run_cell(shell: InteractiveShell, code: str, typed: str) -> str:
    """Run one cell; the first line of its error, "" where there is none."""
    sys.stdin = io.StringIO(typed)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        result = shell.run_cell(code, store_history=True)
    error = result.error_before_exec or result.error_in_exec
    return "" if error is None else f"{type(error).__name__}: {error}"


def problems_of(page: dict[str, Any]) -> Iterator[str]:
    shell = InteractiveShell()
    if page["setup"] and (said := run_cell(shell, page["setup"], "")):
        yield f"the setup of {page['name']}: {said}"
    blocks = page["blocks"]
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block["language"] != "python" or not block["runs"]:
            continue
        said = run_cell(shell, block["code"], page["typed"])
        expected = after["code"].strip() if after and after["language"] == "" else ""
        announced = expected.partition(":")[0].endswith(("Error", "OutOfBounds", "Arguments"))
        if said and not (announced and said.startswith(expected)):
            yield f"{block['place']}: {said}"
        if announced and not said:
            yield f"{block['place']} runs, and the page says {expected!r}"
    if shell.extension_manager is not None and "kernellab" in shell.extension_manager.loaded:
        shell.run_line_magic("unload_ext", "kernellab")


def main() -> None:
    request = json.load(sys.stdin)
    found: dict[str, list[str]] = {}
    for page in request["pages"]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            Path("benchmarks").symlink_to(Path(request["root"], "benchmarks"))
            sys.path.insert(0, folder)
            for name, text in page["files"].items():
                Path(name).write_text(text)
            begun = time.perf_counter()
            found[page["name"]] = list(problems_of(page))
            print(f"{page['name']}: {time.perf_counter() - begun:.1f} s", file=sys.stderr)
            sys.path.remove(folder)
            os.chdir(request["root"])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
