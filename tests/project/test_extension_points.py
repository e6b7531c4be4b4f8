"""The extension points of docs/contributing, each with a small example that is added and works."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy
import pytest
import torch
import triton
import triton.language as tl
from IPython.core.interactiveshell import InteractiveShell
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def

import kernellab
from kernellab import triton_api
from kernellab.checker import check
from kernellab.checker.checked_run import CheckedAccess
from kernellab.checker.detector import Detector
from kernellab.checker.detectors import DETECTORS
from kernellab.cli import doctor
from kernellab.common.arguments import option
from kernellab.common.data_files import Prose, read_data_file
from kernellab.compiler import compilations, modules, targets
from kernellab.compiler.binding import bind
from kernellab.compiler.machine_code import resources
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.interpreter.codegen import emitter, expressions
from kernellab.interpreter.codegen.emitter import Emitter, lowers
from kernellab.interpreter.codegen.expressions import Expression
from kernellab.interpreter.execution.launcher import launch_text
from kernellab.interpreter.lowering.tt import _loaded
from kernellab.interpreter.memory.global_memory import Store
from kernellab.interpreter.tiles import Value
from kernellab.ir import flow, syntax
from kernellab.ir.operations import FloatUnaryOperation, GlobalRead, PointerAccess
from kernellab.magics import ipython_api
from kernellab.magics.magic import Line, magic
from kernellab.records import Target
from kernellab.viz.kit.data import ViewData
from kernellab.viz.kit.view import Card, Table, View, card_of, view_of
from tests.support.compiled import compiled
from tests.support.source_files import ROOT

MAKE_CONTEXT = syntax.context.__wrapped__


@triton.jit
def exponential(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.exp(tl.load(x_ptr + offsets)))


@pytest.fixture
def new_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitter, "RULES", dict(emitter.RULES))


def run_with(
    monkeypatch: pytest.MonkeyPatch, old: str, new: type[IRDLOperation], grid: int, *tensors: Any
) -> None:
    """Launch the kernel's TTIR with one operation in the place of another."""
    known = MAKE_CONTEXT()
    known.load_op(new)
    monkeypatch.setattr(syntax, "context", lambda: known)
    made = compiled(exponential, *tensors, BLOCK=8, target=DEFAULT_TARGET, record="stages")
    text = triton_api.generic_form(made.stages["ttir"].text, DEFAULT_TARGET)
    assert f'"{old}"' in text
    call = bind(exponential, tensors, {"BLOCK": 8}, DEFAULT_TARGET)
    launch_text(exponential, (grid,), call, text.replace(f'"{old}"', f'"{new.name}"'))


@pytest.mark.usefixtures("new_rules")
def test_an_operation(monkeypatch) -> None:
    @irdl_op_definition
    class CbrtOp(FloatUnaryOperation):
        name = "math.cbrt"

    @lowers(CbrtOp, rounds=True)
    def cbrt(op: CbrtOp, value: Emitter) -> Expression:
        return expressions.numpy.member("cbrt")(value[op.operand])

    x, out = torch.rand(16), torch.zeros(16)
    run_with(monkeypatch, "math.exp", CbrtOp, 2, x, out)
    torch.testing.assert_close(out, x.double().pow(1 / 3).float())


@pytest.mark.usefixtures("new_rules")
def test_an_operation_that_accesses_memory(monkeypatch) -> None:
    @irdl_op_definition
    class LoadOnceOp(IRDLOperation):
        name = "tt.load_once"
        traits = traits_def(GlobalRead(), PointerAccess())
        pointer = operand_def()
        result = result_def()

    @lowers(LoadOnceOp)
    def load_once(op: LoadOnceOp, value: Emitter) -> Expression:
        return _loaded(op, value)

    x, out = torch.rand(16), torch.zeros(16)
    run_with(monkeypatch, "tt.load", LoadOnceOp, 2, x, out)
    torch.testing.assert_close(out, x.exp())
    with pytest.raises(kernellab.OutOfBounds, match=r"tl\.load\(x_ptr") as caught:
        run_with(monkeypatch, "tt.load", LoadOnceOp, 3, x, torch.zeros(24))
    fault = caught.value
    assert (fault.action, fault.tensor, fault.index) == ("load", "x_ptr", 16)


class NegativeStore(Detector):
    kinds = ("negative-store",)

    def after(self, access: CheckedAccess, result: Value | None) -> None:
        del result
        if not isinstance(access.request, Store):
            return
        negative = numpy.asarray(access.request.value) < 0

        def facts_of(place: tuple[int, ...], program: int) -> Mapping[str, Any]:
            return {"kind": "negative-store", "message": "a negative number", "advice": "abs"}

        if negative.any():
            self.collector.report(access, negative, access.rank, facts_of)


@triton.jit
def taken_from_two(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 2 - tl.load(x_ptr + offsets))


def test_a_detector(monkeypatch) -> None:
    monkeypatch.setattr(check, "DETECTORS", (*DETECTORS, NegativeStore))
    x = torch.tensor([0.0, 1.0, 5.0, 2.0])
    report = kernellab.check(taken_from_two, (1,), x, torch.zeros(4), BLOCK=4)
    (finding,) = report
    assert (finding.kind, finding.lane) == ("negative-store", (2,))
    assert "a negative number" in kernellab.show(report).text()


@magic("line", has="around")
def tilesource(line: Line, *, upper: bool = option()) -> str:
    """Show the source of the kernel that a line names.

    Options:

      --upper
          In capitals.
    """
    source: str = line.namespace[line.text].src
    return source.upper() if upper else source


def test_a_magic() -> None:
    shell = InteractiveShell()
    shell.user_ns["taken"] = taken_from_two
    tilesource.register(shell)
    assert "def taken_from_two(" in shell.run_line_magic("tilesource", "taken")
    assert "DEF TAKEN_FROM_TWO(" in shell.run_line_magic("tilesource", "--upper taken")
    ipython_api.forget_magic(shell, tilesource)
    assert "tilesource" not in shell.magics_manager.magics["line"]


@dataclass(frozen=True)
class Depths:
    depths: tuple[str, ...]


@dataclass(frozen=True)
class DepthsView(ViewData):
    title: str
    depths: tuple[str, ...]
    kind: Literal["depths"] = "depths"


def test_a_view(tmp_path) -> None:
    @card_of.register
    def card(found: Depths) -> Card:
        return Card("Depths", tables=(Table("Depth", ("",), [(one,) for one in found.depths]),))

    @view_of.register
    def view(found: Depths) -> View:
        return View("Depths", lambda: DepthsView("Loops", found.depths), lambda: [card(found)])

    shown = kernellab.show(Depths(("a<b>",)))
    assert shown.data == DepthsView("Loops", ("a<b>",))
    assert "a<b>" in repr(shown)
    page = shown.to_html(tmp_path / "page.html").read_text()
    assert "a&lt;b&gt;" in page
    assert "a<b>" not in page


@triton.jit
def nested(out_ptr, n):
    total = 0
    for i in range(n):
        for j in range(i):
            total += j
    tl.store(out_ptr, total)


def test_an_analysis(monkeypatch) -> None:
    monkeypatch.setattr(compilations, "_NEEDS", dict(compilations._NEEDS))

    def loop_depth_of(opened: modules.OpenedModules) -> int:
        return max(len(flow.loops_around(op)) for op in opened.snapshot("ttir").walk())

    @compilations.needs("ttir")
    def loop_depth(self: compilations.Compilation) -> int:
        return self._kept(loop_depth_of)

    monkeypatch.setattr(compilations.Compilation, "loop_depth", loop_depth, raising=False)
    made: Any = compiled(nested, "*i32", "i32")
    assert made.can_answer("loop_depth")
    assert made.loop_depth() == 2


def test_a_target(monkeypatch) -> None:
    orin = targets._Architecture("cuda", 163 << 10, "Jetson AGX Orin")
    limits = resources.NvidiaLimits(
        warps=48, shared=164 << 10, shared_per_block=163 << 10, blocks=16,
        shared_reserved=1 << 10, shared_granularity=128,
    )  # fmt: skip
    monkeypatch.setitem(targets._ARCHITECTURES, "87", orin)
    supported = (*targets.SUPPORTED_TARGETS, Target("cuda", "87"))
    monkeypatch.setattr(targets, "SUPPORTED_TARGETS", supported)
    monkeypatch.setitem(resources.NVIDIA_LIMITS, "87", limits)
    made = compiled(exponential, "*fp32:16", "*fp32:16", BLOCK=1024, target="sm_87")
    assert "sm_87" in made.stages["ptx"].text
    assert made.instructions
    assert made.occupancy().most_warps == 48


def test_a_note_on_a_pass_and_a_version_of_triton(tmp_path, monkeypatch) -> None:
    (tmp_path / "notes.toml").write_text('["Cleaning up"]\nexample = "Look for\\n nothing."\n')
    notes = read_data_file(tmp_path / "notes.toml", Mapping[str, Mapping[str, Prose]])
    assert notes["Cleaning up"]["example"] == "Look for nothing."
    monkeypatch.setitem(doctor.TRITON_FOR_TORCH, "2.99", "3.99")
    assert doctor.pairing("2.99.0", "3.99.0").state == "ok"


def test_the_files_that_a_recipe_names_are_there() -> None:
    """A name in capitals is the reader's: the folder is there."""
    for page in (ROOT / "docs/contributing").glob("*.md"):
        for line in page.read_text().splitlines():
            if line.startswith("Files of code: "):
                for name in line.split("`")[1::2]:
                    file = ROOT / name
                    assert file.exists() or (file.stem.isupper() and file.parent.is_dir()), name
