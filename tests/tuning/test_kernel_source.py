"""What a saved sweep keeps of its kernel, which nothing runs; kernels that use user's modules."""

import importlib
import json
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import triton

import kernellab
from kernellab.cli.demo.kernels import matmul
from kernellab.common.saved_files import SavedData
from kernellab.compiler.compare import without_locations
from kernellab.errors import ArgumentError
from kernellab.triton_api.kernel_contents import pack, unpack
from kernellab.tuning.files import from_json
from kernellab.tuning.records import KernelSource, differs, how_to_open, source_of
from kernellab.viz.sweeps import sweeps_data
from tests.kernels.tuned import double
from tests.kernels.tuned import scaled as kernels_scaled
from tests.support.source_files import ROOT

RECORDED = ROOT / "notebooks/recorded/tuning_h200_matmul.json"
TYPES = ("*fp32:16", "*fp32:16", "i32")


@triton.jit
def tripled(x):
    return kernels_scaled(x, 3)


def swept(kernel: Any, blocks: tuple[int, ...] = (128,), **constants: Any) -> kernellab.Tuning:
    space = {"BLOCK": blocks}
    options: Any = {"space": space, "cache": False, "workers": 1, "target": "sm_90", **constants}
    return kernellab.tune(kernel, None, *TYPES, **options)


def saved(sweep: kernellab.Tuning, tmp_path: Path) -> kernellab.Tuning:
    return kernellab.Tuning.load(sweep.save(tmp_path / "sweep.json"))


def kept(subject: Any) -> KernelSource:
    """The source of a sweep, or of a kernel, which is known."""
    found = subject.source if isinstance(subject, kernellab.Tuning) else source_of(subject)
    assert found is not None
    return found


def ttgir(tuning: kernellab.Tuning, number: int = 0) -> str:
    return without_locations(tuning.compilation(number).stages["ttgir"].text)


@pytest.mark.slow
def test_a_saved_sweep_says_where_its_kernel_is(tmp_path, raised) -> None:
    sweep = swept(double, (64, 128))
    again = saved(sweep, tmp_path)
    assert kept(again) == kept(sweep)
    assert kept(again).module == "tests.kernels.tuned"
    assert kept(again).file == "tests/kernels/tuned.py"
    line = (ROOT / kept(again).file).read_text().splitlines()[kept(again).line - 1]
    assert line.startswith("def double(")
    assert "def scaled(" in kept(again).text
    refused = raised(ArgumentError, again.compilation, 1)
    assert "from tests.kernels.tuned import double; tuning.with_kernel(double)" in str(refused)
    opened = kernellab.Tuning.load(tmp_path / "sweep.json", kernel=double)
    assert ttgir(opened, 1) == ttgir(sweep, 1)
    assert opened.compilation(1).resources == sweep.compilation(1).resources


def test_a_file_without_a_source_says_so_and_what_to_do(messages, raised) -> None:
    old = json.loads(RECORDED.read_text())
    old["tunings"][0].pop("source", None)
    loaded = from_json(SavedData(old["tunings"][0]), kernellab.Tuning)
    assert loaded.source is None
    raised(ArgumentError, loaded.compilation, 0)
    (sweep,) = sweeps_data("matmul", "times", [loaded], [], []).sweeps
    assert sweep.how_to_open == messages
    assert "tuning.with_kernel(matmul).show()" in sweep.how_to_open
    (sweep,) = sweeps_data("", "times", [loaded.with_kernel(matmul)], [], []).sweeps
    assert sweep.how_to_open == ""


def test_advice_that_may_be_copied_has_no_code_of_a_file() -> None:
    source = KernelSource("k", "os; bad()", "", 1, "")
    assert "bad" not in how_to_open("k); bad(", source)


def test_another_source_than_the_swept_one_is_said(tmp_path, messages) -> None:
    sweep = swept(double)
    text = kept(sweep).text.replace("constexpr[2.0]", "constexpr[3.0]")
    changed = replace(sweep, source=replace(kept(sweep), text=text), live=None)
    assert differs(kept(sweep), kept(changed))
    assert changed.with_kernel(double).notes[0] == messages
    assert not replace(sweep, live=None).with_kernel(double).notes
    assert "double" in sweep.merged(changed).notes[0]
    assert sweep.merged(changed).notes[0] == messages
    comment = replace(
        kept(sweep), text=f"# so\n{kept(sweep).text}".replace("z = 2 x", "twice"), line=7
    )
    assert not differs(kept(sweep), comment)


TRITON = "import triton\nimport triton.language as tl\n"
GLUON = (
    "from triton.experimental import gluon\nfrom triton.experimental.gluon import language as gl\n"
)
PACKAGE = {
    "tilelib/__init__.py": "from .ops import scaled\nfrom . import ops\n",
    # Both define `step`, and they call each other.
    "tilelib/ops.py": TRITON
    + """
        import math
        import tilelib.constants as constants
        from tilelib import back

        @triton.constexpr_function
        def factor(n):
            return int(math.sqrt(n)) * constants.TWO

        @triton.jit
        def step(x):
            return x + constants.SHIFTS[1]

        @triton.jit
        def scaled(x, N: tl.constexpr = constants.NINE):
            return back.step(x) * factor(N)
        """,
    "tilelib/back.py": TRITON
    + """
        from tilelib import ops

        @triton.jit
        def step(x):
            return ops.step(x) * 1
        """,
    "tilelib/constants.py": TRITON + "TWO = 2\nNINE = tl.constexpr(9)\nSHIFTS = (0, 5)\n",
}
KERNEL = """
    @triton.jit
    def through(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        z = {}
        tl.store(z_ptr + offsets, z, mask=offsets < n)
    """


class Written:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            head, newline, body = text.partition("\n\n")
            path.write_text(head + newline + textwrap.dedent(body))
        importlib.invalidate_caches()

    def kernel(self, imports: str, expression: str, name: str = "swept_kernels") -> Any:
        """`through`, in a module that imports so and computes that."""
        self.write(
            {f"{name}.py": f"{TRITON}{imports}\n{textwrap.dedent(KERNEL.format(expression))}"}
        )
        sys.modules.pop(name, None)
        return importlib.import_module(name).through

    def delete(self) -> None:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(self.folder)):
                del sys.modules[name]
        for path in sorted(self.folder.rglob("*.py")):
            path.unlink()
        importlib.invalidate_caches()


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    found = Written(tmp_path / "modules")
    found.folder.mkdir()
    yield found
    found.delete()


def computed(kernel: Any, **constants: Any) -> torch.Tensor:
    x, z = torch.arange(200.0), torch.zeros(200)
    kernellab.run(kernel, (2,), x, z, 200, BLOCK=128, **constants)
    return z


def test_gluons_layouts_are_in_the_file(written, tmp_path) -> None:
    written.write(
        {
            "relayout.py": GLUON
            + """
                WIDE = gl.constexpr(gl.BlockedLayout([4], [32], [4], [0]))

                @gluon.jit
                def tripled(x):
                    return gl.convert_layout(x, WIDE) * 3
                """,
            "swept_gluon.py": GLUON
            + "import relayout\n"
            + """
                @gluon.jit
                def through(x_ptr, z_ptr, n, BLOCK: gl.constexpr, LAYOUT: gl.constexpr):
                    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=LAYOUT)
                    x = gl.load(x_ptr + offsets, mask=offsets < n)
                    z = gl.convert_layout(relayout.tripled(x), LAYOUT)
                    gl.store(z_ptr + offsets, z, mask=offsets < n)
                """,
        }
    )
    from triton.experimental.gluon import language as gl

    layout = gl.BlockedLayout([1], [32], [4], [0])
    kernel = importlib.import_module("swept_gluon").through
    sweep = swept(kernel, LAYOUT=layout)
    again = saved(sweep, tmp_path)
    assert again.constants == {"LAYOUT": layout}
    assert ttgir(again.with_kernel(kernel)) == ttgir(sweep)
    assert "def tripled(" in kept(again).text


def test_a_layout_that_this_triton_lacks_is_still_read_by_name(written, raised) -> None:
    from kernellab.common.saved_files import SavedData, SchemaError
    from kernellab.tuning.files import values_from_json

    data = {
        "shown": "FutureLayout(3)",
        "layout": "triton.experimental.gluon.language._layouts.FutureLayout",
    }
    found = values_from_json(SavedData({"L": {**data, "fields": {}}}))
    assert repr(found["L"]) == "FutureLayout(3)"
    data["layout"] = "subprocess.Popen"  # no class of just any module
    assert (
        repr(values_from_json(SavedData({"L": {**data, "fields": {"args": "true"}}}))["L"])
        == "FutureLayout(3)"
    )
    raised(SchemaError, values_from_json, SavedData({"L": {"dtype": "nonsense"}}))


def test_variables_of_the_kernel_are_not_taken_for_globals(written) -> None:
    """In a notebook, tensors have the names that the kernel's tiles have."""
    names = "import torch\nx = torch.zeros(1_000_000)\nz = n = x\nclass Rest: pass"
    kernel = written.kernel(names, "x * 2")
    assert "zeros" not in kept(kernel).text
    assert len(pack(kernel)) < 10_000


@pytest.mark.slow
def test_other_processes_get_the_modules_as_they_are_here(written) -> None:
    """A module that was loaded again differs from the compiling process's, or from the file."""
    helper = (
        f"{TRITON}\n"
        "@triton.jit\n"
        "def helper(x):\n    return x * FACTOR\n"
        f"FACTOR = tl.constexpr({{}})\n"
    )
    written.write({"edited.py": helper.format(2)})
    x, z = torch.arange(200.0), torch.zeros(200)

    def checked(factor: int) -> str:
        kernel = written.kernel("import edited", "edited.helper(x)")
        options: Any = {"space": {"BLOCK": [128]}, "check": True, "cache": False, "workers": 1}
        reference = {"z_ptr": factor * x}
        found = kernellab.tune(kernel, (2,), x, z, 200, reference=reference, **options)
        return str(found.table["same result as"][0])

    assert checked(2) == "the reference"
    path = written.folder / "edited.py"
    before = path.stat().st_mtime
    written.write({"edited.py": helper.format(7)})
    os.utime(path, (before + 10, before + 10))  # so that Python sees another file
    importlib.reload(sys.modules["edited"])
    assert checked(7) == "the reference"
    kernel = written.kernel("import edited", "edited.helper(x)")
    there = unpack(pack(kernel))
    part = there.fn.__globals__["edited"]
    assert type(part) is ModuleType
    assert part is not sys.modules["edited"]
    assert {name for name in vars(part) if not name.startswith("__")} == {"helper"}


def test_another_helper_differs_source(written) -> None:
    written.write(PACKAGE)
    source = kept(swept(written.kernel("import tilelib", "tilelib.scaled(x, 4)")))
    assert "constants.TWO = 2" in source.text
    assert "def factor(" in source.text
    assert differs(source, replace(source, text=source.text.replace("TWO = 2", "TWO = 3")))
    # A text that Python gives up reading.
    assert differs(source, replace(source, text=f"x = {'-' * 100_000}1"))


def test_files_that_are_named_as_pythons_own_are_the_users(written, tmp_path) -> None:
    for name in ("sched", "shelve"):
        assert name not in sys.modules, "another of Python's modules is needed here"
    written.write({"shelve.py": f"{TRITON}\n@triton.jit\ndef twice(x):\n    return x * 2\n"})
    kernel = written.kernel("import math, shelve", "shelve.twice(x)", name="sched")
    sweep = swept(kernel)
    assert not any(sweep.table["dropped"])
    assert "def twice(" in kept(sweep).text
