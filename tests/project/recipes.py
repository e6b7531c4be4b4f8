"""A small example of each recipe in docs/contributing: its files, and a proof that it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Insert:
    """Text that goes into a file behind a passage that stands there once."""

    after: str
    text: str


@dataclass(frozen=True)
class Recipe:
    """One recipe, followed."""

    heading: str
    """The heading of its section in docs/contributing."""
    edits: dict[str, str | tuple[Insert, ...]]
    """File -> its text, where it is a new one, or what goes into it."""
    proof: str
    """A program that fails unless the example works."""
    most: int = 3
    """Files of code that it may take."""


KERNEL = """
import torch, triton, triton.language as tl
import kernellab
from kernellab import triton_api
from kernellab.compiler.binding import bind
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.interpreter.execution.launcher import launch_text

@triton.jit
def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.exp(tl.load(x_ptr + offsets)))

def run_with(old, new, grid, x, out):
    '''Launch the kernel's TTIR with one operation in the place of another.'''
    made = kernellab.compile(kernel, x, out, BLOCK=8, record="stages")
    text = triton_api.generic_form(made.stages["ttir"].text, DEFAULT_TARGET)
    assert f'"{old}"' in text
    call = bind(kernel, (x, out), {"BLOCK": 8}, DEFAULT_TARGET)
    launch_text(kernel, grid, call, text.replace(f'"{old}"', f'"{new}"'))

x, out = torch.rand(16), torch.zeros(16)
"""
"""The beginning of some proofs. Their source is a file: Triton reads it there."""

OPERATION = Recipe(
    heading="Add an operation to the interpreter",
    edits={
        "kernellab/ir/mlir.py": (
            Insert(
                '    name = "math.trunc"\n',
                "\n\n@irdl_op_definition\nclass CbrtOp(FloatUnaryOperation):\n"
                '    name = "math.cbrt"\n',
            ),
        ),
        "kernellab/interpreter/lowering/mlir.py": (
            Insert('    mlir.SqrtOp: "sqrt",\n', '    mlir.CbrtOp: "cbrt",\n'),
        ),
    },
    proof=KERNEL
    + """
run_with("math.exp", "math.cbrt", (2,), x, out)
torch.testing.assert_close(out, x.double().pow(1 / 3).float())
""",
)

MEMORY_OPERATION = Recipe(
    heading="Add an operation that accesses memory",
    edits={
        "kernellab/ir/tt.py": (
            Insert(
                '    is_volatile = opt_prop_def(builtin.IntegerAttr, prop_name="isVolatile")\n'
                "    irdl_options = (AttrSizedOperandSegments(as_property=True),)\n",
                """

@irdl_op_definition
class LoadOnceOp(IRDLOperation):
    name = "tt.load_once"
    traits = traits_def(GlobalRead(), PointerAccess(mask="mask"))
    pointer = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
""",
            ),
        ),
        "kernellab/interpreter/lowering/tt.py": (
            Insert(
                "    return _loaded(op.pointer, value, mask=value.optional(op.mask), "
                "other=other)\n",
                """

@lowers(tt.LoadOnceOp)
def load_once(op: tt.LoadOnceOp, value: Emitter) -> Expression:
    return _loaded(op.pointer, value, mask=value.optional(op.mask))
""",
            ),
        ),
    },
    proof=KERNEL
    + """
run_with("tt.load", "tt.load_once", (2,), x, out)
torch.testing.assert_close(out, x.exp())
try:
    run_with("tt.load", "tt.load_once", (3,), x, torch.zeros(24))
except kernellab.OutOfBounds as fault:
    assert fault.action == "load" and fault.tensor == "x_ptr" and fault.index == 16, fault
    assert "tl.load(x_ptr" in str(fault), fault
else:
    raise SystemExit("an access outside was not seen")
""",
)

DETECTOR = Recipe(
    heading="Add a detector",
    edits={
        "kernellab/checker/detectors/negative_store.py": '''"""Negative numbers that are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from kernellab.checker.checked_run import Access
from kernellab.checker.detector import Detector
from kernellab.interpreter.memory.global_memory import Store
from kernellab.interpreter.tiles import Value


class NegativeStore(Detector):
    """Looks at the values of each store."""

    kinds = ("negative-store",)

    def after(self, access: Access, result: Value | None) -> None:
        del result
        if not isinstance(access.request, Store):
            return
        negative = numpy.asarray(access.request.value) < 0

        def facts_of(place: tuple[int, ...], program: int) -> Mapping[str, Any]:
            return {"kind": "negative-store", "message": "a negative number", "advice": "abs"}

        if negative.any():
            self.collector.report(access, negative, access.rank, facts_of)
''',
        "kernellab/checker/detectors/__init__.py": (
            Insert(
                "from kernellab.checker.detectors.loops import EndlessLoop\n",
                "from kernellab.checker.detectors.negative_store import NegativeStore\n",
            ),
            Insert("    DotPrecision,\n", "    NegativeStore,\n"),
        ),
    },
    proof="""
import torch, triton, triton.language as tl, kernellab

@triton.jit
def negate(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 2 - tl.load(x_ptr + offsets))

x = torch.tensor([0.0, 1.0, 5.0, 2.0])
(finding,) = kernellab.check(negate, (1,), x, torch.zeros(4), BLOCK=4)
assert finding.kind == "negative-store" and finding.lane == (2,), finding
card = kernellab.show(kernellab.check(negate, (1,), x, torch.zeros(4), BLOCK=4))
assert "a negative number" in card.text()
""",
)

MAGIC = Recipe(
    heading="Add a magic",
    edits={
        "kernellab/magics/kernel_magics.py": (
            Insert(
                "if blank and name.isidentifier() else (words, None)\n",
                '''

SOURCE_OPTIONS = Options("tilesource", (Option("--upper", "", "In capitals."),), sigil="%")


@line_magic(SOURCE_OPTIONS, f"Show a kernel's source.\\n\\n{SOURCE_OPTIONS.help()}")
def tilesource(shell: Shell, line: str) -> str:
    """Show the source of the kernel on a line."""
    position = ipython_api.running_line(shell, f"%tilesource {line}".rstrip())
    given, words = read_line(SOURCE_OPTIONS, line, position)
    source: str = evaluated(words, shell.user_ns, SOURCE_OPTIONS.magic, position("")).src
    return source.upper() if given["upper"] else source
''',
            ),
        ),
        "kernellab/magics/__init__.py": (
            Insert(
                "        kernel_magics.tilelayout,\n",
                "        kernel_magics.tilesource,\n",
            ),
        ),
    },
    proof="""
import triton
from IPython.core.interactiveshell import InteractiveShell

@triton.jit
def quiet():
    pass

shell = InteractiveShell()
shell.user_ns["quiet"] = quiet
shell.run_line_magic("load_ext", "kernellab")
assert "def quiet()" in shell.run_line_magic("tilesource", "quiet")
assert "DEF QUIET()" in shell.run_line_magic("tilesource", "--upper quiet")
shell.run_line_magic("unload_ext", "kernellab")
assert "tilesource" not in shell.magics_manager.magics["line"]
""",
)

VIEW = Recipe(
    heading="Add a view of a pass, or of anything compiled",
    edits={
        "kernellab/viz/pipelines.py": '''"""The schedule of pipelined loops: card and view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernellab.compiler.analyses.records import PipelineStages
from kernellab.viz.kit.data import ViewData
from kernellab.viz.kit.view import Card, Table, View, card_of, view_of


@dataclass(frozen=True)
class PipelineView(ViewData):
    """The operations of each loop, by stages."""

    title: str
    operations: tuple[str, ...]
    kind: Literal["pipeline"] = "pipeline"


@card_of.register
def pipeline_card(found: PipelineStages) -> Card:
    """The operations, with their stages."""
    operations = [operation for loop in found.loops for operation in loop.operations]
    rows = [(one.operation, one.name, str(one.stage)) for one in operations]
    return Card("Pipelined loops", tables=(Table("Schedule", ("", "", "stage"), rows),))


@view_of.register
def pipeline_view(found: PipelineStages) -> View:
    """The schedule of each loop."""
    names = tuple(one.operation for loop in found.loops for one in loop.operations)
    data = PipelineView("Loops", names)
    return View("Pipelined loops", lambda: data, lambda: [pipeline_card(found)])
''',
        "kernellab/viz/registry.py": (
            Insert("import kernellab.viz.layouts", "\nimport kernellab.viz.pipelines"),
        ),
        "js/src/pipelines.ts": "// draws PipelineView\n",
        "js/src/main.ts": (
            Insert(
                "      return new LayoutExplorer(dom, data);\n",
                '    case "pipeline":\n      return new PipelineExplorer(dom, data);\n',
            ),
        ),
    },
    proof="""
import tempfile
from pathlib import Path
import kernellab
from kernellab.compiler.analyses.records import PipelineStages, ScheduledLoop, ScheduledOperation

operation = ScheduledOperation("tt.load", "a<b>", 0, 1, None)
found = PipelineStages((ScheduledLoop(None, 3, (operation,)),), "ttgir.schedule_loops")
view = kernellab.show(found)
assert view.data.operations == ("tt.load",)
assert "tt.load" in repr(view)
with tempfile.TemporaryDirectory() as folder:
    page = Path(view.to_html(Path(folder) / "page.html")).read_text()
assert "a&lt;b&gt;" in page and "a<b>" not in page
""",
    most=4,
)

ANALYSIS = Recipe(
    heading="Add an analysis",
    edits={
        "kernellab/compiler/analyses/records.py": (
            Insert(
                'Source: PTX ISA, Tensor Memory."""\n',
                '''

@dataclass(frozen=True)
class LoopDepth:
    """The deepest nesting of loops in a kernel."""

    loops: int
''',
            ),
        ),
        "kernellab/compiler/compilations.py": (
            Insert("        Work,\n", "        LoopDepth,\n"),
            Insert(
                "        return self._kept(work_of)\n",
                '''
    @needs("ttir")
    def loop_depth(self) -> LoopDepth:
        """How deep loops are nested."""
        from kernellab.compiler.analyses.loop_depth import loop_depth_of

        return self._kept(loop_depth_of)
''',
            ),
        ),
        "kernellab/compiler/analyses/loop_depth.py": '''"""How deep loops are nested."""

from __future__ import annotations

from kernellab.compiler.analyses.records import LoopDepth
from kernellab.compiler.modules import OpenedModules, loops_around


def loop_depth_of(opened: OpenedModules) -> LoopDepth:
    """The most loops around any operation."""
    return LoopDepth(max(len(loops_around(op)) for op in opened.snapshot("ttir").walk()))
''',
    },
    proof="""
import triton, triton.language as tl, kernellab

@triton.jit
def nested(out_ptr, n):
    total = 0
    for i in range(n):
        for j in range(i):
            total += j
    tl.store(out_ptr, total)

made = kernellab.compile(nested, "*i32", "i32")
assert made.can_answer("loop_depth") and made.loop_depth().loops == 2
""",
)

TARGET = Recipe(
    heading="Add a target",
    edits={
        "kernellab/compiler/targets.py": (
            Insert(
                '    "80": _Architecture("cuda", 163 * _KIB, "A100, A800, A30"),\n',
                '    "87": _Architecture("cuda", 163 * _KIB, "Jetson AGX Orin"),\n',
            ),
        ),
        "kernellab/compiler/gpus.py": (
            Insert(
                "_ALL = (\n",
                """    Gpu(
        "Jetson AGX Orin", "cuda", "87", "Orin", 16, 64 * _GIB, 1.3, 0.205e6, 4 * _MIB, None,
        fp32=128, double=2, tensor=512, bus_bits=256,
        sources=_nvidia("Jetson AGX Orin data sheet", cache_bytes="Jetson AGX Orin data sheet"),
    ),
""",
            ),
        ),
        "kernellab/compiler/machine_code/resources.py": (
            Insert(
                '    "86": NvidiaLimits(blocks=16, **_CONSUMER, **_RESERVED),\n',
                """    "87": NvidiaLimits(
        blocks=16, warps=48, shared=164 * _KIB, shared_per_block=163 * _KIB, **_RESERVED
    ),
""",
            ),
        ),
    },
    proof="""
import triton, triton.language as tl, kernellab

@triton.jit
def add(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) + 1, mask=offsets < n)

made = kernellab.compile(add, "*fp32:16", "i32", BLOCK=1024, target="sm_87")
assert "sm_87" in made.stages["ptx"].text and made.instructions
assert made.occupancy().most_warps == 48, made.occupancy()
""",
)

PASS_NOTE = Recipe(
    heading="Add a note on a pass",
    edits={
        "kernellab/compiler/pass_notes.toml": (
            Insert(
                '["Cleaning up"]\n',
                'example_pass = "An example. Look for nothing."\n',
            ),
        ),
    },
    proof="""
from kernellab.compiler.passes import pass_notes
assert "Look for nothing" in pass_notes()["example_pass"].text
""",
)

TRITON_VERSION = Recipe(
    heading="Support a new version of Triton",
    edits={
        "kernellab/cli/doctor.py": (Insert('"2.15": "3.9"', ', "2.16": "3.10"'),),
    },
    proof="""
from kernellab.cli.doctor import pairing
assert pairing("2.16.0", "3.10.0").state == "ok"
""",
)

RECIPES = (
    OPERATION,
    MEMORY_OPERATION,
    DETECTOR,
    MAGIC,
    VIEW,
    ANALYSIS,
    TARGET,
    PASS_NOTE,
    TRITON_VERSION,
)
