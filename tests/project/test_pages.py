"""Blocks of Python in README.md and docs/ run, or a list says why not; commands are parsed."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from itertools import dropwhile
from typing import Any

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from kernellab.cli import main as terminal
from kernellab.common.arguments import spread_constexprs
from tests.project.pages import FILES, LIBRARY_FILE, NOT_RUN, SETUP, TYPED, Block, blocks_of, pages
from tests.support.python_processes import python_path
from tests.support.source_files import ROOT

BLOCKS = {page: blocks_of(ROOT / page) for page in (str(p.relative_to(ROOT)) for p in pages())}
ALL = [block for blocks in BLOCKS.values() for block in blocks]
PYTHON = [block for block in ALL if block.language == "python"]
TERMINAL = [block for block in ALL if block.language == "sh"]
RUN = sorted({block.page for block in PYTHON if (block.page, block.first_line) not in NOT_RUN})


def files_of(page: str) -> dict[str, str]:
    if page not in FILES:
        return {}
    name, number = FILES[page]
    return {name: LIBRARY_FILE if number is None else BLOCKS[page][number].code}


def request(page: str) -> dict[str, Any]:
    return {
        "name": page,
        "setup": SETUP.get(page, ""),
        "files": files_of(page),
        "typed": TYPED,
        "blocks": [
            {
                "place": block.place,
                "language": block.language,
                "code": block.code,
                "runs": (page, block.first_line) not in NOT_RUN,
            }
            for block in BLOCKS[page]
        ],
    }


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Page -> what is wrong with its blocks; one process runs them all."""
    cache = str(tmp_path_factory.mktemp("cache"))
    # The pages show what happens without a GPU.
    around = {"XDG_CACHE_HOME": cache, "MPLBACKEND": "agg", "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.project.page_runner"],
        input=json.dumps({"root": str(ROOT), "pages": [request(page) for page in RUN]}),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": python_path(ROOT), **around},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    print(ran.stderr)  # how long each page took, for who looks
    found: dict[str, list[str]] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_the_code_of_a_page_runs(page, problems) -> None:
    assert not problems[page], "\n".join(problems[page])


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.place)
def test_the_code_of_a_page_is_python(block) -> None:
    ast.parse(TransformerManager().transform_cell(block.code))


def test_what_does_not_run_is_there_and_says_why() -> None:
    there = {(block.page, block.first_line) for block in PYTHON}
    assert set(NOT_RUN) <= there, set(NOT_RUN) - there
    assert set(SETUP) | set(FILES) <= {block.page for block in PYTHON}
    assert len(NOT_RUN) < len(PYTHON) / 4


def commands_of(block: Block) -> list[list[str]]:
    """The commands of a block, as words; variables before one are left out."""
    lines = re.sub(r"\\\n\s*", " ", block.code).split("\n")
    words = (shlex.split(line, comments=True) for line in lines)
    return [list(dropwhile(re.compile(r"\w+=").match, one)) for one in words if one]


@pytest.mark.parametrize("block", TERMINAL, ids=lambda block: block.place)
def test_what_is_typed_in_a_terminal_exists(block) -> None:
    """Options of `kernellab` are known, targets of make and modules of ours are there."""
    subprocess.run(["bash", "-n"], input=block.code, text=True, check=True)
    for program, *words in commands_of(block):
        if program.endswith("kernellab"):
            terminal._parser().parse_args(spread_constexprs(words))
        elif program == "make":
            assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        elif "-m" in words and (module := words[words.index("-m") + 1]).startswith("benchmarks"):
            assert (ROOT / module.replace(".", "/")).with_suffix(".py").is_file(), module


# The notebooks as a reader finds them, before running anything


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_saved_with_its_outputs(path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert any(cell.outputs for cell in code)
    for cell in code:
        assert cell.execution_count is not None, f"not run: {cell.source[:60]!r}"
        errors = [output for output in cell.outputs if output.output_type == "error"]
        expected = "raises-exception" in cell.metadata.get("tags", [])
        assert bool(errors) == expected, cell.source
    assert notebook.cells[0].cell_type == "markdown", "a notebook says first what it is about"
