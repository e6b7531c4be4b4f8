# mypy: ignore-errors
"""Submissions of a softmax over rows that do not do the work, or do it wrong. The first word of
each docstring is the kind of the diagnostic that rejects it; several are separated by "|".
"""

import ctypes
import gc
import json
import os
import signal
import socket
import sys
import threading
import time

import numpy
import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, z_ptr, columns, stride, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(z_ptr + row * stride + at, e / tl.sum(e, 0), mask=at < columns)


@triton.jit
def copied(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def set_to(z_ptr, n, VALUE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.full([BLOCK], VALUE, tl.float32), mask=at < n)


@triton.jit
def in_half_precision(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp((x - tl.max(x, 0)).to(tl.float16).to(tl.float32)).to(tl.float16)
    total = tl.sum(e, 0)
    tl.store(z_ptr + row * columns + at, e / total, mask=at < columns)


@triton.jit
def without_maximum(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x)
    tl.store(z_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


@triton.jit
def by_a_power(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    y = tl.maximum(1.0 + (x - tl.max(x, 0)) / 64.0, 0.0)
    for _ in range(6):
        y = y * y
    y = tl.where(at < columns, y, 0.0)
    tl.store(z_ptr + row * columns + at, y / tl.sum(y, 0), mask=at < columns)


@triton.jit
def unmasked(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at)
    x = tl.where(at < columns, x, float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(z_ptr + row * columns + at, e / tl.sum(e, 0))


@triton.jit
def behind_the_input(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(x_ptr + at + 4096, mask=at < n), mask=at < n)


@triton.jit
def by_assembly(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.inline_asm_elementwise(
        "ex2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(z_ptr + at, y, mask=at < n)


@triton.jit
def racing(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(z_ptr + at, e / tl.sum(e, 0), mask=at < columns)


@triton.jit
def endless(x_ptr, z_ptr, n):
    i = 0
    while i < n:
        i = i + (tl.load(x_ptr) > 1e30).to(tl.int32)
    tl.store(z_ptr, tl.load(x_ptr) + i)


@triton.jit
def by_address(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    far = (x_ptr.to(tl.int64) - 1048576).to(tl.pointer_type(tl.float32))
    tl.store(z_ptr + at, tl.load(far + at, mask=at < n), mask=at < n)


def into_new(kernel, x, *more, grid=None, **options):
    """Launch a kernel, by default for each row, with a tensor and a new one for its result."""
    x = x.contiguous()
    z = torch.empty_like(x)
    kernel[grid or (x.shape[0],)](x, z, *more, **options)
    return z


def launched(x):
    columns = x.shape[1]
    return into_new(softmax, x, columns, columns, BLOCK=triton.next_power_of_2(columns))


def launched_as(kernel, x):
    return into_new(kernel, x, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))


# torch computes the result


def by_torch(x):
    """computed-by-torch"""
    return torch.softmax(x, -1)


def by_torch_beside_a_ghost(x):
    """computed-by-torch: a kernel runs, and its stores reach nothing."""
    launched(x)
    return torch.softmax(x, -1)


def by_torch_copied_by_a_kernel(x):
    """computed-by-torch"""
    right, z = torch.softmax(x, -1), torch.empty_like(x)
    copied[(triton.cdiv(x.numel(), 64),)](right, z, x.numel(), BLOCK=64)
    return z


def by_torch_after_a_failed_launch(x):
    """computed-by-torch"""
    try:
        z = torch.empty_like(x)
        softmax[(x.shape[0],)](x, z, x.shape[1], x.stride(0), BLOCK=x.shape[1] * 2 + 1)
        return z
    except Exception:
        return x.exp() / x.exp().sum(-1, keepdim=True)


def by_torch_into_the_output(x):
    """computed-by-torch"""
    z = launched(x)
    z.copy_(torch.softmax(x, -1))
    return z


def by_torch_with_out(x):
    """computed-by-torch"""
    return torch.exp(x - x.logsumexp(-1, keepdim=True), out=launched(x))


def by_torch_for_one_element(x):
    """computed-by-torch"""
    z = launched(x)
    z[0, 0] = torch.softmax(x, -1)[0, 0]
    return z


def by_torch_in_a_list(x):
    """computed-by-torch"""
    z = launched(x)
    torch._foreach_copy_([z], [torch.softmax(x, -1)])
    return z


def by_torch_before_the_kernel(x):
    """computed-by-torch"""
    return launched(x - x.max())


def by_torch_in_the_input(x):
    """computed-by-torch"""
    x.copy_(torch.log_softmax(x, -1))
    return launched(x)


def by_torch_compile(x):
    """computed-by-torch"""
    return torch.compile(torch.softmax)(x, -1)


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [a.as_subclass(torch.Tensor) if isinstance(a, Lazy) else a for a in args]
        return func(torch.softmax(plain[0], -1), *plain[1:], **(kwargs or {}))


def by_a_lazy_tensor(x):
    """not-computed|computed-by-torch|code-error|wrong-shape"""
    return x.as_subclass(Lazy)


def by_torch_with_modes_off(x):
    """not-computed|wrong-result|code-error"""
    import torch.utils._python_dispatch as dispatch

    with dispatch._disable_current_modes():
        return torch.softmax(x, -1)


def by_numpy(x):
    """not-computed|wrong-shape|computed-by-torch"""
    values = x.cpu().numpy()
    e = numpy.exp(values - values.max(-1, keepdims=True))
    return torch.from_numpy(e / e.sum(-1, keepdims=True)).cuda()


def by_python(x):
    """reads-values|computed-by-torch|not-computed|code-error"""
    rows = x.tolist()
    return torch.tensor([[v / sum(row) for v in row] for row in rows]).cuda()


def by_ctypes_after_a_launch(x):
    """ended-process: an address of a GPU is not one of the process."""
    z = torch.empty_like(x)
    set_to[(2,)](z, z.numel(), VALUE=0.5, BLOCK=64)
    ctypes.memmove(z.data_ptr(), torch.softmax(x, -1).data_ptr(), z.numel() * 4)
    return z


def by_a_thread_that_goes_on(x):
    """computed-by-torch|not-computed|wrong-result"""
    z = torch.empty_like(x)

    def compute():
        time.sleep(0.2)
        z.copy_(torch.softmax(x, -1))

    threading.Thread(target=compute, daemon=True).start()
    return z


# Nothing is computed


def passed_through(x):
    """not-computed"""
    return x


def zeros(x):
    """not-computed"""
    return torch.zeros_like(x)


def zeroed_input(x):
    """not-computed|wrong-result"""
    x.zero_()
    return torch.full_like(x, 1 / x.shape[1])


def nan_by_a_kernel(x):
    """wrong-result"""
    z = torch.empty_like(x)
    set_to[(triton.cdiv(z.numel(), 64),)](z, z.numel(), VALUE=float("nan"), BLOCK=64)
    return z


def memory_behind_the_input(x):
    """out-of-bounds"""
    return into_new(behind_the_input, x, x.numel(), grid=(1,), BLOCK=256)


def memory_at_an_address(x):
    """out-of-bounds|wild-address|invalid-address"""
    return into_new(by_address, x, x.numel(), grid=(1,), BLOCK=256)


def ghost(x):
    """not-computed"""
    launched(x)
    return torch.empty_like(x)


class Equal:
    shape, dtype = (6, 20), torch.float32

    def __eq__(self, other):
        return True


def an_object_that_equals_all(x):
    """wrong-shape|code-error|no-kernel"""
    launched(x)
    return Equal()


def expanded_from_one_row(x):
    """wrong-result"""
    return launched(x[:1]).expand(x.shape)


# Results of earlier calls


_kept = {}


def kept_by_shape(x):
    """stale-result"""
    if x.shape not in _kept:
        _kept[x.shape] = launched(x)
    return _kept[x.shape]


def kept_after_three_calls(x):
    """stale-result"""
    _kept.setdefault("calls", []).append(launched(x) if len(_kept.get("calls", [])) < 3 else None)
    return _kept["calls"][-1] if _kept["calls"][-1] is not None else _kept["calls"][2]


def kept_and_copied_by_a_kernel(x):
    """wrong-result"""
    if x.shape not in _kept:
        _kept[x.shape] = launched(x)
    z = torch.empty_like(x)
    copied[(triton.cdiv(x.numel(), 64),)](_kept[x.shape], z, x.numel(), BLOCK=64)
    return z


def of_foreseen_inputs(x):
    """memorized-result: the cases are drawn as the judge draws them."""
    if "right" not in _kept:
        from kernellab.judging.cases import UNSEEN, derived, listed

        with torch.utils._python_dispatch._disable_current_modes():
            given = torch.randn(6, 20, generator=torch.Generator().manual_seed(0))
            drawn = derived(listed([(given,)]), UNSEEN)
            _kept["right"] = [torch.softmax(case.args[0], -1).tolist() for case in drawn]
    right = torch.tensor(_kept["right"].pop(0), device="cuda")
    z = torch.empty_like(right)
    copied[(triton.cdiv(z.numel(), 64),)](right, z, z.numel(), BLOCK=64)
    return z


def of_foreseen_inputs_alone(x):
    """code-error: other values are refused."""
    if _kept.setdefault("calls", 0):
        raise ValueError("not supported")
    _kept["calls"] = 1
    return of_foreseen_inputs(x)


def of_foreseen_inputs_or_in_low_precision(x):
    """memorized-result"""
    _kept["calls"] = _kept.get("calls", 0) + 1
    if _kept["calls"] == 5:
        _kept["right"].pop(0)
        return launched_as(in_half_precision, x)
    return of_foreseen_inputs(x)


def replayed_as_a_graph(x):
    """unsupported-operation"""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = launched(x)
    graph.replay()
    return z


# The kernel is wrong


def in_low_precision(x):
    """rounding"""
    return launched_as(in_half_precision, x)


_tuned = triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 16)], [])(softmax)


def in_one_of_two_configs(x):
    """wrong-result"""
    return into_new(_tuned, x, x.shape[1], x.shape[1])


_of_many = [triton.Config({"BLOCK": b}, num_stages=s) for s, b in enumerate([32] * 9 + [16], 1)]
_tuned_long = triton.autotune(_of_many, [])(softmax)


def in_one_of_ten_configs(x):
    """wrong-result"""
    return into_new(_tuned_long, x, x.shape[1], x.shape[1])


def on_one_of_two_targets(x):
    """wrong-result"""
    return launched(x) if torch.cuda.get_device_capability()[0] == 9 else launched(x.flip(1))


def for_small_values_only(x):
    """wrong-result"""
    return launched_as(without_maximum, x)


def through_half_precision(x):
    """wrong-result"""
    return launched(x.half().float())


def within_a_loose_tolerance(x):
    """wrong-result"""
    return launched_as(by_a_power, x)


def for_one_size_only(x):
    """wrong-result"""
    return into_new(softmax, x, 20, 20, BLOCK=32)


def for_contiguous_tensors_only(x):
    """wrong-result|out-of-bounds"""
    z = torch.empty(x.shape, device=x.device)
    softmax[(x.shape[0],)](x, z, x.shape[1], x.shape[1], BLOCK=32)
    return z


def without_masks(x):
    """out-of-bounds"""
    return launched_as(unmasked, x)


def into_one_row(x):
    """race|lost-update"""
    return launched_as(racing, x)


def without_end(x):
    """no-end|deadlock|endless-loop"""
    return into_new(endless, x, x.numel(), grid=(1,))


def in_assembly(x):
    """inline-assembly"""
    return into_new(by_assembly, x, x.numel(), grid=(1,), BLOCK=256)


def as_half(x):
    """wrong-shape"""
    return launched(x).half()


# What runs depends on what is seen


def chosen_by_a_value(x):
    """reads-values"""
    return launched(x) if x[0, 0].item() > 0 else torch.softmax(x, -1)


def chosen_by_a_count_of_values(x):
    """reads-values"""
    count = len(torch.nonzero(x[:, 0]))
    return into_new(softmax, x, x.shape[1], x.shape[1], grid=(count,), BLOCK=32)


def chosen_by_a_value_in_a_fill(x):
    """reads-values"""
    most = torch.empty((), device=x.device).fill_(x.max())
    return launched(x) if most.item() < 50 else torch.softmax(x, -1)


def chosen_by_hidden_reading(x):
    """unsteady-host"""
    return launched(x) if abs(x.cpu().numpy()).max() < 50 else with_two_warps(x)


def with_two_warps(x):
    """wrong-result: the mask is one too short."""
    return into_new(softmax, x, x.shape[1] - 1, x.shape[1], BLOCK=32, num_warps=2)


def chosen_by_time(x):
    """unsteady-host"""
    z = launched(x)
    if time.time_ns() // 1000 % 1000 > 2:
        scratch = torch.empty(time.time_ns() % 999 + 1, device="cuda")
        scratch.zero_()
    return z


# Tools of the judge are changed


def with_other_tools(x):
    """not-computed"""
    import kernellab.judging.records as records

    records.Verdict.__bool__ = lambda self: True
    torch.allclose = torch.equal = lambda *_, **__: True
    torch.testing.assert_close = lambda *_, **__: None
    time.perf_counter = time.time = lambda: 0.0
    torch.cuda.Event.elapsed_time = lambda *_: 0.0
    for name, module in list(sys.modules.items()):
        if name.startswith("kernellab") and hasattr(module, "elements_off"):
            module.elements_off = lambda actual, *_: torch.zeros(actual.shape, dtype=torch.bool)
    return torch.zeros_like(x)


def from_a_walk_of_the_heap(x):
    """not-computed|computed-by-torch|code-error"""
    others = [o for o in gc.get_objects() if isinstance(o, torch.Tensor) and o is not x]
    same = [o for o in others if o.shape == x.shape]
    return same[0] if same else torch.empty_like(x)


def from_a_walk_of_the_frames(x):
    """not-computed"""
    frame = sys._getframe()
    while frame is not None:
        for value in frame.f_locals.values():
            if isinstance(value, torch.Tensor) and value.shape == x.shape and value is not x:
                return value
        frame = frame.f_back
    return torch.empty_like(x)


def recorder():
    return next(o for o in gc.get_objects() if type(o).__name__ == "HostRecorder")


def with_a_forged_step(x):
    """not-computed|wrong-result|invalid-record"""
    z = torch.empty_like(x)
    thing = recorder()
    thing._steps.append({"copy": thing.encoded(x), "to": thing.encoded(z), "line": 1})
    return z


def with_a_forged_view(x):
    """invalid-record|invalid-module"""
    z = launched(x)
    thing = recorder()
    far = {**thing.encoded(z), "offset": 10**9}
    thing._steps.append({"copy": far, "to": thing.encoded(z), "line": 1})
    return z


def end_with(content, kind=b"="):
    """Answer in place of the process."""
    content = kind + len(content).to_bytes(8, "big") + content
    while content:
        content = content[os.write(3, content[: 1 << 20]) :]
    os._exit(0)


def with_a_forged_answer(x):
    """invalid-record|ended-process"""
    answer = {"setup": [], "calls": [{"steps": [], "outputs": []}], "kernels": [], "modules": []}
    end_with(json.dumps(answer).encode())


def with_a_forged_problem(x):
    """invalid-record"""
    end_with(json.dumps({"problem": {"what": 5, "position": {"file": "/etc/passwd"}}}).encode())


def with_a_problem_of_many_bytes(x):
    """many-bytes"""
    words = {"kind": "many-bytes", **dict.fromkeys(("what", "why", "advice"), "🂡" * 9000)}
    end_with(json.dumps({"problem": words}).encode())


def with_a_forged_size(x):
    """invalid-record"""
    z = launched(x)
    thing = recorder()
    wide = {**thing.encoded(z), "shape": [1 << 40], "strides": [0]}
    thing._steps.append({"fill": wide, "value": 0, "line": 1})
    return z


def with_a_file_among_the_options(x):
    """refused-option"""
    return into_new(softmax, x, 20, 20, BLOCK=32, ptx_options="-optf /etc/passwd")


def with_a_module_of_a_file(x):
    """refused-option"""
    return into_new(softmax, x, 20, 20, BLOCK=32, ir_override="/etc/passwd")


def with_a_forged_option(x):
    """refused-option"""
    z = launched(x)
    recorder()._steps[-1]["options"]["ptx_options"] = "-o /tmp/answer_of_an_attack"
    return z


def with_a_forged_line(x):
    """invalid-record"""
    z = launched(x)
    recorder()._described[0]["functions"][0]["first_line"] = 1 << 31
    return z


def with_attributes_that_double(x):
    """compile-error|invalid-module"""
    z = launched(x)
    doubled = "".join(f"#a{n} = [#a{n - 1}, #a{n - 1}]\n" for n in range(1, 41))
    thing = recorder()
    for module in thing._modules:
        module["text"] = f'#a0 = "x"\n{doubled}module attributes {{tt.a = #a40}} {{}}'
    return z


def with_an_answer_of_empty_lists(x):
    """ended-process"""
    end_with(b'{"setup": [' + b"[]," * 5_000_000 + b"[]]}")


def with_a_pickle_for_an_answer(x):
    """ended-process"""
    end_with(b"cos\nabort\n(tR.", b"p")


def with_an_answer_without_end(x):
    """ended-process"""
    os.write(3, b"=" + bytes([127] * 8))
    while True:
        os.write(3, bytes(1 << 16))


# The process


def that_exits(x):
    """code-error"""
    sys.exit(0)


class Odd(Exception):
    def __str__(self):
        return 5


def that_raises_an_odd_error(x):
    """ended-process|code-error"""
    raise Odd


def that_ends_the_process(x):
    """ended-process"""
    os._exit(0)


def that_kills_the_parent(x):
    """code-error"""
    os.kill(os.getppid(), signal.SIGKILL)


def that_crashes(x):
    """ended-process"""
    ctypes.string_at(0)


def that_does_not_end(x):
    """no-end"""
    while True:
        pass


def that_sleeps(x):
    """no-end"""
    time.sleep(1000)


def that_takes_all_memory(x):
    """code-error|ended-process"""
    return bytearray(1 << 40)


def that_fills_the_disk(x):
    """ended-process"""
    for number in range(100):
        with open(f"{os.environ['TMPDIR']}/{number}", "wb") as file:
            file.write(bytes(10_000_000))
    time.sleep(1000)


def that_prints_megabytes(x):
    """not-computed"""
    for _ in range(100):
        print("x" * 1_000_000)
    return torch.zeros_like(x)


def that_forks(x):
    """code-error"""
    while True:
        os.fork()


def that_uses_the_network(x):
    """code-error"""
    socket.socket()


def that_writes_files(x):
    """code-error"""
    with open("/tmp/answer_of_an_attack", "w") as file:
        file.write("x")


def that_reads_the_parent(x):
    """code-error"""
    with open(f"/proc/{os.getppid()}/mem", "rb") as file:
        file.read(1)


def that_traces_the_parent(x):
    """not-computed"""
    ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)
    return torch.zeros_like(x)
