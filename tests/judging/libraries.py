"""Three small libraries in known styles, with references and changes that break them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

HEAD = "import functools, logging, os\nimport torch, triton, triton.language as tl\n"


@dataclass(frozen=True)
class Library:
    """A library: its files, what is judged, its reference, and a change that breaks it."""

    files: dict[str, str]
    submission: str
    reference: Callable[..., Any]
    sizes: tuple[tuple[int, ...], ...]
    change: tuple[str, str]
    kind: str


AUTOGRAD = Library(
    {
        "liger/utils.py": """
def calculate_settings(n):
    block = triton.next_power_of_2(n)
    if block > 65536:
        raise RuntimeError(f"{n} columns are too many")
    return block, 8 if block >= 2048 else 4

def ensure_contiguous(function):
    @functools.wraps(function)
    def wrapper(ctx, *args):
        return function(ctx, *(a.contiguous() if isinstance(a, torch.Tensor) else a for a in args))
    return wrapper
""",
        "liger/swiglu.py": """
from .utils import calculate_settings, ensure_contiguous

@triton.jit
def silu(x):
    return x * tl.sigmoid(x)

@triton.jit
def _swiglu_forward_kernel(
    a_ptr, b_ptr, c_ptr, stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    program_id = tl.program_id(0).to(tl.int64)
    a_ptr += program_id * stride
    b_ptr += program_id * stride
    c_ptr += program_id * stride
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    a = tl.load(a_ptr + cols, mask=mask, other=0).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=mask, other=0)
    tl.store(c_ptr + cols, silu(a).cast(b.dtype) * b, mask=mask)

class SwiGLU(torch.autograd.Function):
    @staticmethod
    @ensure_contiguous
    def forward(ctx, a, b):
        shape, n = a.shape, a.shape[-1]
        a, b = a.view(-1, n), b.view(-1, n)
        c = torch.empty_like(a)
        block, warps = calculate_settings(n)
        _swiglu_forward_kernel[(a.shape[0],)](
            a, b, c, c.stride(-2), n_cols=n, BLOCK_SIZE=block, num_warps=warps
        )
        ctx.save_for_backward(a, b)
        return c.view(*shape)

def swiglu(a, b):
    return SwiGLU.apply(a, b)
""",
    },
    "liger/swiglu.py::swiglu",
    lambda a, b: torch.nn.functional.silu(a) * b,
    ((2, 3, 20), (2, 3, 20)),
    ("tl.sigmoid(x)", "tl.sigmoid(1.1 * x)"),
    "wrong-result",
)

CHUNKED = Library(
    {
        "fla/utils.py": """
def input_guard(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        args = [a if not isinstance(a, torch.Tensor) else a.contiguous() for a in args]
        with torch.cuda.device(args[0].device.index):
            return function(*args, **kwargs)
    return wrapper

@functools.lru_cache(maxsize=None)
def check_shared_mem(index=0):
    return torch.cuda.get_device_properties(index).shared_memory_per_block >= 1 << 15

NUM_WARPS = [2, 4] if os.environ.get("FLA_FAST") else [1, 2]
""",
        "fla/ops/cumsum.py": """
from ..utils import NUM_WARPS, check_shared_mem, input_guard

@triton.heuristics({"HAS_SCALE": lambda args: args["scale"] is not None})
@triton.autotune(
    configs=[triton.Config({}, num_warps=n) for n in NUM_WARPS], key=["BT", "REVERSE"]
)
@triton.jit(do_not_specialize=["T"])
def chunk_local_cumsum_kernel(
    s, o, scale, T, B: tl.constexpr, BT: tl.constexpr, HAS_SCALE: tl.constexpr,
    REVERSE: tl.constexpr,
):
    i_t, i_b = tl.program_id(0), tl.program_id(1)
    p_s = tl.make_block_ptr(s + i_b * T, (T,), (1,), (i_t * BT,), (BT,), (0,))
    p_o = tl.make_block_ptr(o + i_b * T, (T,), (1,), (i_t * BT,), (BT,), (0,))
    b_s = tl.load(p_s, boundary_check=(0,)).to(tl.float32)
    b_o = tl.cumsum(b_s, axis=0)
    if REVERSE:
        b_o = -b_o + tl.sum(b_s, axis=0)[None] + b_s
    if HAS_SCALE:
        b_o *= scale
    tl.store(p_o, b_o.to(p_o.dtype.element_ty), boundary_check=(0,))

@input_guard
def chunk_local_cumsum(g, chunk_size=8, reverse=False, scale=None):
    B, T = g.shape
    assert check_shared_mem() and chunk_size == 2 ** (chunk_size.bit_length() - 1)
    o = torch.empty_like(g, dtype=torch.float)
    grid = (triton.cdiv(T, chunk_size), B)
    chunk_local_cumsum_kernel[grid](
        s=g, o=o, scale=scale, T=T, B=B, BT=chunk_size, REVERSE=reverse
    )
    return o
""",
    },
    "fla/ops/cumsum.py::chunk_local_cumsum",
    lambda g: torch.cat([part.cumsum(1) for part in g.split(8, 1)], 1),
    ((3, 20),),
    ("tl.cumsum(b_s, axis=0)", "tl.cumsum(b_s, axis=0, reverse=True)"),
    "wrong-result",
)

ENTRIES = Library(
    {
        "gems/runtime.py": """
device = torch.cuda

class LibEntry(triton.KernelInterface):
    def __init__(self, fn):
        self.fn, self.arg_names, self.kernel_cache = fn, fn.arg_names, {}

    def run(self, *args, **kwargs):
        grid = kwargs.pop("grid")
        self.kernel_cache.setdefault(tuple(type(a) for a in args), len(self.kernel_cache))
        return self.fn[grid](*args, **{k: v for k, v in kwargs.items() if k != "warmup"})

def libentry():
    return LibEntry
""",
        "gems/mean.py": """
import math
from .runtime import device, libentry

logger = logging.getLogger(__name__)

@libentry()
@triton.jit
def mean_kernel_1(inp, mid, M, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offset = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inp_val = tl.load(inp + offset, mask=offset < M, other=0.0)
    tl.store(mid + pid, tl.sum(inp_val, axis=0))

@libentry()
@triton.jit
def mean_kernel_2(mid, out, M, MID_SIZE, BLOCK_MID: tl.constexpr):
    offset = tl.arange(0, BLOCK_MID)
    mid_val = tl.load(mid + offset, mask=offset < MID_SIZE, other=0.0)
    tl.store(out, tl.sum(mid_val, axis=0) / M)

def mean(inp, *, dtype=None):
    logger.debug("GEMS MEAN")
    M = inp.numel()
    block_size = triton.next_power_of_2(math.ceil(math.sqrt(M)))
    mid_size = triton.cdiv(M, block_size)
    mid = torch.empty((mid_size,), dtype=dtype or inp.dtype, device=inp.device)
    out = torch.empty([], dtype=dtype or inp.dtype, device=inp.device)
    inp = inp.contiguous()
    with device.device(inp.device):
        mean_kernel_1[(mid_size, 1, 1)](inp, mid, M, block_size)
        mean_kernel_2[(1, 1, 1)](mid, out, M, mid_size, triton.next_power_of_2(mid_size))
    return out
""",
    },
    "gems/mean.py::mean",
    torch.mean,
    ((5, 30),),
    ("offset < M, other", "offset <= M, other"),
    "out-of-bounds",
)

LIBRARIES: dict[str, Library] = {"autograd": AUTOGRAD, "chunked": CHUNKED, "entries": ENTRIES}
