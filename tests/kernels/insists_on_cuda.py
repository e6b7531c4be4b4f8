"""A small library that runs on a GPU only: it asks while imported, and refuses the CPU."""

import functools

import torch
import triton
import triton.language as tl

if not torch.cuda.is_available():
    raise RuntimeError("this library needs a GPU")

DEVICE = torch.device("cuda", torch.cuda.current_device())
NAME = torch.cuda.get_device_name()
IS_HOPPER = torch.cuda.get_device_capability() >= (9, 0)
IS_AMD = torch.version.hip is not None


@functools.lru_cache
def multiprocessors(index):
    return torch.cuda.get_device_properties(index).multi_processor_count


@triton.jit
def _scale_kernel(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        tl.store(out_ptr + offsets, x * factor, mask=offsets < n)


def scale(x, factor):
    """x * factor, by a persistent kernel."""
    if not x.is_cuda:
        raise ValueError(f"x must be on a GPU, not on {x.device}")
    assert x.device.type == "cuda"
    assert x.device == DEVICE
    out = torch.empty_like(x)
    grid = (min(multiprocessors(x.device.index), triton.cdiv(x.numel(), 256)),)
    with torch.cuda.device(x.device):
        _scale_kernel[grid](x, out, factor, x.numel(), BLOCK=256, num_warps=8 if IS_HOPPER else 4)
    return out


class Scale(torch.autograd.Function):
    """`scale` with a gradient."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(context, x, factor):
        context.factor = factor
        return scale(x, factor)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(context, gradient):
        return scale(gradient.contiguous(), context.factor), None


def milliseconds(function, repeats=2):
    """The time of a call, by events on a stream of its own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            function()
        end.record(stream)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    return start.elapsed_time(end) / repeats


@torch.library.custom_op("kernellab_tests::scaled", mutates_args=(), device_types="cuda")
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """`scale` as an operation of torch's, which is there for a GPU only."""
    out: torch.Tensor = scale(x, factor)
    return out
