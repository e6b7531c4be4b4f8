"""Files edited after their import, and variables with names of generated code, are traced."""

import ast
import importlib
import io
import keyword
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import kernellab
from kernellab.compiler.binding import bind
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.interpreter.codegen.expressions import BUILTINS, MODULES
from kernellab.interpreter.execution.program import nested_codes, program_code
from kernellab.interpreter.execution.stepping_code import stepping_code

TEXT = """import triton
import triton.language as tl


@triton.jit
def added(x):
    y = x + 1
    return y


@triton.jit
def kernel(x_ptr):
    x = tl.load(x_ptr)
    z = added(x)
    tl.store(x_ptr, z)
"""


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module whose file says something else since its import."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = f"edited_{tmp_path.name}".replace("-", "_")
    file = tmp_path / f"{name}.py"
    file.write_text(TEXT)
    module = importlib.import_module(name)
    file.write_text(TEXT.replace("x + 1", "x * 100"))
    linecache.checkcache(str(file))
    yield module
    del sys.modules[name]


def test_a_trace_has_the_lines_that_ran(edited: ModuleType, messages) -> None:
    trace = kernellab.trace(edited.kernel, (1,), torch.zeros(1, dtype=torch.int32))
    lines = [line for source in trace.sources for line in source.lines]
    assert "    y = x + 1" in lines
    assert not any("100" in line for line in lines)
    (notice,) = trace.notices_now()
    assert notice == messages


def test_a_trace_says_that_a_file_was_edited_later(edited, messages) -> None:
    Path(edited.__file__ or "").write_text(TEXT)
    trace = kernellab.trace(edited.kernel, (1,), torch.zeros(1, dtype=torch.int32))
    assert trace.notices_now() == ()
    Path(edited.__file__ or "").write_text(TEXT.replace("x + 1", "x * 1000"))
    (notice,) = trace.notices_now()
    assert notice == messages


def test_the_debugger_shows_the_lines_that_run(edited, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\ns\nn\nl\np y\nc\n"))
    kernellab.debug(edited.kernel, (1,), torch.zeros(1, dtype=torch.int32))
    printed = capsys.readouterr().out
    assert "'added' in" in printed
    assert "y = x + 1" in printed
    assert "x * 100" not in printed
    # Afterwards Python reads the file again: an import must.
    assert "x * 100" in "".join(linecache.getlines(edited.__file__ or ""))


# A kernel may call its variables what generated code calls its own things


HEAD = "import triton, triton.language as tl\n@triton.jit\n"
OF_THE_KERNEL = {
    "y_ptr", "n", "G", "g", "tile", "tl", "triton", "print", "float", "int", "min", "max", "len",
    "list", "tuple",
}  # fmt: skip
"""Names that the kernels below need for themselves."""

WITHOUT_ANY = f"""{HEAD}def names(y_ptr, n, G):
    tile = tl.program_id(0)
    for g in range(G):
        if tile < n:
            tile += g
    tl.store(y_ptr, tile)
"""


@pytest.fixture
def module_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)

    def made(name: str, text: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(text)
        return importlib.import_module(name)

    return made


def names_of_generated_code(kernel: Any, *args: Any) -> list[str]:
    """Every name in a kernel's code for batches and stepping, with an underscore and without."""
    call = bind(kernel, args, {}, DEFAULT_TARGET)
    found = {*MODULES, *BUILTINS, "np", "pid", "given", "values", "everything", "stop", "start"}
    batch = program_code(kernel, call, DEFAULT_TARGET)
    found |= {node.id for node in ast.walk(ast.parse(batch.source)) if isinstance(node, ast.Name)}
    for traced in (False, True):
        stepping = stepping_code(kernel, call, DEFAULT_TARGET, traced=traced)
        for code in stepping.functions:
            for one in nested_codes(code):
                found |= {*one.co_names, *one.co_varnames}
    plain = {name.split(".")[-1].lstrip("_") for name in found}
    names = {*plain, *(f"_{name}" for name in plain)} - OF_THE_KERNEL
    return sorted(name for name in names if name.isidentifier() and not keyword.iskeyword(name))


@pytest.mark.slow
def test_variables_with_names_of_generated_code(module_of: Any) -> None:
    y = torch.zeros(1, dtype=torch.int32)
    names = names_of_generated_code(module_of("without_any", WITHOUT_ANY).names, y, 100, 2)
    assert {
        "tiles", "_tiles", "hook", "_hook", "memory", "range", "numpy", "_programs", "shown",
    } <= {*names}  # fmt: skip
    given = "".join(f"        {name} = n * {k}\n" for k, name in enumerate(names, 2))
    used = "".join(f"            tile += {name}\n" for name in names)
    text = (
        f"{HEAD}def every_name(y_ptr, n, G):\n    tile = tl.program_id(0)\n    for g in range(G):\n"
        f"{given}        if tile >= 0:\n"
        f"{used}    tl.store(y_ptr, tile)\n"
    )
    trace = kernellab.trace(module_of("with_every", text).every_name, (1,), y, 3, 2)
    last = trace.at(-1)
    expected = {name: 3 * k for k, name in enumerate(names, 2)}
    assert {name: last[name] for name in names} == expected
    for name in ("tiles", "memory", "_hook"):
        assert [change.value for change in trace.history(name)] == [expected[name]] * 2
    assert trace.find(lambda state: state.tiles > 0) is not None
    assert trace.memory("y_ptr").tolist() == [2 * sum(expected.values())]


def test_parameters_with_names_of_generated_code(module_of: Any) -> None:
    y = torch.zeros(1, dtype=torch.int32)
    names = names_of_generated_code(module_of("without", WITHOUT_ANY).names, y, 100, 2)
    parameters, total = ", ".join(names), " + ".join(names)
    text = (
        f"{HEAD}def inner({parameters}):\n    return {total}\n\n"
        "@triton.jit\n"
        f"def outer(y_ptr, {parameters}):\n    tl.store(y_ptr, inner({parameters}))\n"
    )
    values = range(2, 2 + len(names))
    trace = kernellab.trace(module_of("parameters_of", text).outer, (1,), y, *values)
    first = trace.at(0)
    assert [first[name] for name in names] == list(values)
    assert trace.memory("y_ptr").tolist() == [sum(values)]
