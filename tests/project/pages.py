"""The code blocks of README.md and docs/: what they take for granted, and which do not run here."""

import re
from dataclasses import dataclass
from pathlib import Path

import torch

from tests.support.source_files import ROOT


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    code: str

    @property
    def place(self) -> str:
        """ "docs/start.md:12"."""
        return f"{self.page}:{self.line}"

    @property
    def first_line(self) -> str:
        """What names it in `NOT_RUN`: lines move."""
        return self.code.strip().split("\n")[0]


_FENCE = re.compile(r"^([ ]*)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path) -> list[Block]:
    """A page's code blocks, those in lists too. Sphinx's own are none: "```{course}"."""
    text = page.read_text()
    name = page.relative_to(ROOT).as_posix()
    return [
        Block(
            name,
            text.count("\n", 0, found.start()) + 2,
            found[2],
            re.sub(f"^{found[1]}", "", found[3], flags=re.MULTILINE),
        )
        for found in _FENCE.finditer(text)
    ]


def pages() -> list[Path]:
    """README.md and the pages of docs/, without the recipes for contributors."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *(page for page in pages if page.parent.name != "contributing")]


GPU = "needs a GPU"
NCU = "reads what Nsight Compute writes on a GPU; the next block reads such files of an H200"
INDUCTOR = "captures torch.compile, which is slow; tests/graphs asks all of it"
CUDA_BUILD = "raises another error with a CUDA build of torch"
CLUSTER = "needs a cluster's scheduler; tests/tuning/test_executors.py has one of Dask's"

NOT_RUN = {
    (
        "docs/interpreted.md",
        'with kernellab.interpreted(answers="gpu"):  # the module asks for a GPU when it is '
        "imported",
    ): INDUCTOR,
    ("docs/torch_compile.md", "import kernellab, torch"): INDUCTOR,
    (
        "docs/torch_compile.md",
        "found = report.compare()  # down to the generated kernels, on the interpreter",
    ): INDUCTOR,
    (
        "docs/torch_compile.md",
        'compiled = torch.compile(model, backend="kernellab", options={"gpu": "h200", "run": '
        '"triton"})',
    ): INDUCTOR,
    **({("docs/troubleshooting.md", "x.cuda()"): CUDA_BUILD} if torch.version.cuda else {}),
    ("docs/tuning.md", "tuning = kernellab.tune("): GPU,
    ("docs/tuning.md", "def swept(kernel, n):"): GPU,
    ("docs/tuning.md", 'client = distributed.Client("tcp://scheduler:8786")'): CLUSTER,
    ("docs/widgets.md", "report = kernellab.check(matmul, grid, a, b, c)"): NCU,
}
"""(page, first line of the block) -> why it is only parsed."""

_LAUNCHES = """
import json, numpy, torch, triton, triton.language as tl, kernellab

@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)

@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M=64, N=64, K=64,
    BM: tl.constexpr = 32, BN: tl.constexpr = 32, BK: tl.constexpr = 32,
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    columns = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + rows * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + columns)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows * N + columns, acc)

M = N = K = 64
grid = (2, 2)
a, b, c = torch.rand(64, 64), torch.rand(64, 64), torch.zeros(64, 64)
"""
"""A product and a sum, whose names most pages use."""

_COMPILATION = (
    _LAUNCHES + 'compilation = kernellab.compile(matmul, a, b, c, M, N, K, target="sm_90")\n'
)

_VECTORS = _LAUNCHES + "n = 98_432\nx, y, z = torch.rand(n), torch.rand(n), torch.empty(n)\n"

SETUP = {
    "docs/accesses.md": _LAUNCHES
    + """
from benchmarks.memory_kernels import gather
index = torch.randint(0, 65536, (65536,), dtype=torch.int32)
x, out = torch.rand(65536), torch.empty(65536)
""",
    "docs/analyses.md": _LAUNCHES
    + """
@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))

x, out = torch.rand(770), torch.empty(776)
""",
    "docs/checking.md": """
import torch, triton, triton.language as tl, kernellab

@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)

x, y, z = torch.rand(1000), torch.rand(1000), torch.empty(1000)
""",
    "docs/debugging.md": "%load_ext kernellab",
    "docs/diagnosis.md": _LAUNCHES
    + """
M = N = K = 4096
a, b, c = (torch.empty(4096, 4096, device="meta", dtype=torch.float16) for _ in range(3))
""",
    "docs/equality.md": _LAUNCHES
    + """
@triton.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    start = tl.program_id(0) * columns
    x = tl.load(x_ptr + start + lanes, mask=lanes < columns, other=float("-inf"))
    y = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + start + lanes, y / tl.sum(y, axis=0), mask=lanes < columns)

@triton.jit
def online_softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    start = tl.program_id(0) * columns
    x = tl.load(x_ptr + start + lanes, mask=lanes < columns, other=float("-inf"))
    logarithm = tl.log(tl.sum(tl.exp(x), axis=0))
    tl.store(y_ptr + start + lanes, tl.exp(x - logarithm), mask=lanes < columns)

x, y = torch.rand(64, 200), torch.empty(64, 200)
u, v, w = torch.rand(98_432), torch.rand(98_432), torch.empty(98_432)
""",
    "docs/estimates.md": _LAUNCHES,
    "docs/interpreted.md": """
import torch, kernellab, library
x, y = torch.rand(1000), torch.rand(1000)
""",
    "docs/interpreter.md": _LAUNCHES,
    "docs/ir.md": _COMPILATION,
    "docs/layouts.md": _COMPILATION
    + 'other = kernellab.compile(matmul, a, b, c, M, N, K, target="sm_80").layouts()["acc"][0]\n'
    "other = other.layout\n",
    "docs/profiling.md": "%load_ext kernellab\n"
    + _LAUNCHES
    + """
class model:
    step = staticmethod(lambda x: matmul[grid](x, x, c, M, N, K))

x = a.half()
""",
    "docs/sass.md": _COMPILATION,
    "docs/tracing.md": """
%load_ext kernellab
import torch, kernellab
from kernellab.cli.demo.kernels import softmax
x, out = torch.randn(1823, 781), torch.empty(1823, 781)
""",
    "docs/tuning.md": _VECTORS
    + """
space = {"BLOCK": [256, 1024]}
grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
""",
    "docs/widgets.md": _COMPILATION,
}
"""Page -> what its blocks take for granted."""

FILES = {
    "docs/judging.md": ("answer.py", 0),
    "docs/debugging.md": ("kernels.py", 0),
    "docs/interpreted.md": ("library.py", None),
}
"""Page -> a file that its blocks import: one of its blocks, by number, or `LIBRARY_FILE`."""

LIBRARY_FILE = """
import torch
from kernellab.cli.demo.kernels import vector_add

def add(x, y):
    out = torch.empty_like(x)
    vector_add[(1,)](x, y, out, x.numel(), BLOCK=131072)
    return out

def test_all():
    x = torch.rand(100)
    vector_add[(1,)](x, x, torch.empty(200), 200, BLOCK=256)
"""

TYPED = "c\nc\nq\n"
"""What a person types where a block asks for commands."""
