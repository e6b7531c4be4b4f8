"""A virtual GPU for torch.compile: its properties, calls whose tensors count as being on it, and
the decompositions and the attention that it selects.
"""

from __future__ import annotations

import functools
import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

import torch
import torch._dynamo.device_interface
import torch._dynamo.source
import torch._inductor.runtime.hints
import torch._inductor.utils
import torch._meta_registrations
import torch._subclasses.fake_tensor
import torch.fx
import torch.fx.experimental.proxy_tensor
import torch.nn.attention.flex_attention
import torch.utils._triton
from torch._higher_order_ops.associative_scan import associative_scan

from kernellab.common.patches import Replacement, all_replaced, around, replaced, watched
from kernellab.torch_api.emulation import (
    OF_C,
    OF_CUDA,
    follow_autocast,
    following,
    let_operations_be_traced,
)

_interfaces: Any = torch._dynamo.device_interface
_cuda: Any = torch.cuda
_hints: Any = torch._inductor.runtime.hints
_inductor_utils: Any = torch._inductor.utils
_triton_questions: Any = torch.utils._triton

DEVICE = torch.device("cuda", 0)
"""Its name, AMD's too."""

CPU, META = torch.device("cpu"), torch.device("meta")
"""The device of a call's tensors that count as being on it: the meta device if some of them have no
values, else the CPU.
"""


@contextmanager
def gpu_answers(properties: Any, hip_version: str | None) -> Iterator[None]:
    """While active, torch's compiler sees one GPU, in all threads of the process.

    Args:
        properties: as `torch.cuda.get_device_properties` gives them.
        hip_version: of ROCm, for an AMD GPU; None for NVIDIA's.
    """
    let_operations_be_traced()
    _interfaces.get_interface_for_device("cuda")  # registers torch's own before ours
    with all_replaced(_replacements(properties, hip_version)), _registered(_interface(properties)):
        _forget_answers()
        try:
            yield
        finally:
            _forget_answers()


def _replacements(properties: Any, hip_version: str | None) -> Iterator[Replacement]:
    yield torch.version, "hip", hip_version
    yield torch._C, "_accelerator_getDeviceIndex", lambda: 0
    yield torch.cuda, "is_current_stream_capturing", lambda: False
    yield torch.cuda, "_get_device_properties", lambda _index: properties
    yield from ((torch.cuda, name, function) for name, function in OF_CUDA.items())
    yield from ((torch._C, name, function) for name, function in OF_C.items())
    # Before the first traced tensor of a GPU, torch makes a real one there (2.11: if one is said to
    # be available).
    yield _fakes, "init_gpu_context", lambda _device: None
    if hip_version is None:  # builds of torch for the CPU have no cuDNN
        yield torch._C, "_conv_determine_backend_memory_format", _format_of_cudnn
    state = torch.get_rng_state()  # the CPU's, as the call runs there
    yield torch.cuda, "get_rng_state", lambda _device=None: state
    yield torch.cuda, "set_rng_state", lambda _state, _device=None: None


def _format_of_cudnn(x: torch.Tensor, weight: torch.Tensor, _backend: Any) -> torch.memory_format:
    """Return the memory format of a convolution's result (ConvUtils.h,
    cudnn_conv_suggest_memory_format).
    """
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(weight.dim())
    formats = map(torch._prims_common.suggest_memory_format, (x, weight))
    if last is None or torch.float64 in (x.dtype, weight.dtype) or last not in formats:
        return torch.contiguous_format
    return last


def _interface(properties: Any) -> type:
    """Return the interface of a kind of device for Dynamo and Inductor: torch's own, except for
    what it took from `torch.cuda` before, or would remember.
    """

    class Worker(_interfaces.CudaInterface.Worker):  # type: ignore[misc]
        current_device = staticmethod(lambda: 0)
        get_device_properties = staticmethod(lambda _device=None: properties)

    class VirtualGpu(_interfaces.CudaInterface):  # type: ignore[misc]
        device_count = staticmethod(_cuda.device_count)
        exchange_device = staticmethod(_cuda._exchange_device)
        maybe_exchange_device = staticmethod(_cuda._maybe_exchange_device)
        get_raw_stream = staticmethod(lambda _device: 0)
        is_bf16_supported = staticmethod(lambda *_answer, **_options: properties.major >= 8)

    VirtualGpu.Worker = Worker
    return VirtualGpu


@contextmanager
def _registered(interface: type) -> Iterator[None]:
    known = dict(_interfaces.device_interfaces)
    for name in ("cuda", "cuda:0"):
        _interfaces.register_interface_for_device(name, interface)
    try:
        yield
    finally:
        _interfaces.device_interfaces.clear()
        _interfaces.device_interfaces.update(known)


def _forget_answers() -> None:
    for module in (_triton_questions, _inductor_utils):
        for thing in vars(module).values():
            if getattr(thing, "__module__", None) == module.__name__ and hasattr(
                thing, "cache_clear"
            ):
                thing.cache_clear()
    _hints.DeviceProperties.create.cache_clear()


# A call whose tensors count as a GPU's: what it makes on "cuda" is where they are, and
# `torch.autocast("cuda")` casts them.

_copy: Any = torch.ops.aten._to_copy.default
_fakes: Any = torch._subclasses.fake_tensor
_flex: Any = torch.nn.attention.flex_attention

_places: list[torch.device | None] = [None]
"""The devices on which tensors of the GPU are made; None for the GPU. The last entry counts."""


@contextmanager
def gpu_tensors_lie(place: torch.device | None) -> Iterator[None]:
    """While active, tracing makes the GPU's tensors on another device; None for the GPU."""
    _places.append(place)
    try:
        yield
    finally:
        _places.pop()


def moved_devices(
    args: Sequence[Any], kwargs: Mapping[str, Any] | None, place: torch.device
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments of an operation with another place instead of the GPU."""

    def moved(value: Any) -> Any:
        is_gpu = isinstance(value, torch.device) and value.type == DEVICE.type
        return place if is_gpu else value

    return tuple(map(moved, args)), {name: moved(value) for name, value in (kwargs or {}).items()}


def without_gpu(module: torch.fx.GraphModule, place: torch.device) -> None:
    """Replace the GPU by another device in one of Dynamo's graphs, in place."""

    def moved(value: Any) -> Any:
        is_device = isinstance(value, torch.device) or (
            isinstance(value, str) and value.partition(":")[0] == DEVICE.type
        )
        return place if is_device and torch.device(value).type == DEVICE.type else value

    for node in module.graph.nodes:
        if node.op == "call_method" and node.target == "cuda":
            node.target, node.args, node.kwargs = "to", (node.args[0], place), {}
        elif "autocast" not in getattr(node.target, "__name__", ""):
            node.args = torch.fx.node.map_aggregate(node.args, moved)
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, moved)
    module.recompile()


def lift_constants(module: torch.fx.GraphModule, place: torch.device) -> None:
    """Make a Dynamo graph, in place, read tensors of lists from buffers: Inductor assumes that
    inputs are on the GPU, and constants on their own device.
    """
    for node in list(module.graph.nodes):
        if node.target not in (torch.tensor, torch.as_tensor) or node.all_input_nodes:
            continue
        value = node.target(*node.args, **{**node.kwargs, "device": CPU})
        if value.dim() and not value.requires_grad:
            name = f"constant_of_{node.name}"
            module.register_buffer(name, value.to(place))
            getattr(module, "_param_name_to_source", {})[name] = (
                torch._dynamo.source.ConstantSource(name)
            )
            with module.graph.inserting_before(node):
                node.args, node.kwargs = (module.graph.get_attr(name),), {}
            node.target = torch.clone
    module.recompile()


@contextmanager
def calls_on_gpu() -> Iterator[None]:
    """While active, calls may name the GPU, and are autocast as on it."""
    with (
        watched(_fakes.FakeTensorMode, __torch_dispatch__=_elsewhere),
        replaced(torch, set_autocast_enabled=following(lambda: _counts)),
        replaced(_flex, _validate_device=_nothing_of_torchs),  # refuses gradients on the CPU
        replaced(associative_scan, __code__=_of_any_device(associative_scan.__code__)),
    ):
        follow_autocast(torch.is_autocast_enabled(DEVICE.type), _counts)
        try:
            yield
        finally:
            follow_autocast(False, _counts)


_nothing_of_torchs = FunctionType(
    (lambda *_: None).__code__.replace(co_filename=str(_flex.__file__)), vars(_flex)
)
"""A function that does nothing, and that Dynamo traces: it skips those of `kernellab`."""


def _of_any_device(code: CodeType) -> CodeType:
    """The code of a function that refuses tensors that are not on a GPU, without that check."""

    def changed(value: Any) -> Any:
        if isinstance(value, CodeType):
            return _of_any_device(value)
        return (*value, CPU.type, META.type) if value == ("cuda", "xpu") else value

    return code.replace(co_consts=tuple(map(changed, code.co_consts)))


def _elsewhere(
    dispatch: Any, mode: Any, function: Any, types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    place = _places[-1]
    if place is not None:
        args, kwargs = moved_devices(args, kwargs, place)
        if function is _copy and kwargs.get("device") == META:
            kwargs["device"] = place  # `let_operations_be_traced` has "cuda" mean it there
    return dispatch(mode, function, types, args, kwargs)


def _counts(_tensor: torch.Tensor) -> bool:
    """Every tensor of the call counts as being on the GPU."""
    return True


# Decompositions that see a GPU while the traced tensors are on the CPU.
#
# Some depend on where a tensor is: `convolution_backward` sums the bias separately on a GPU, a
# matmul is written out for the CPU. While one runs, a traced tensor answers that it is on the GPU;
# the operations that it calls see the CPU again, which autograd needs: without a GPU, torch's
# engine refuses to differentiate what is on one.

_proxies: Any = torch.fx.experimental.proxy_tensor
_metas: Any = torch._meta_registrations


class _Asking(threading.local):
    """Whether this thread is inside a decomposition, but not in one of its operations."""

    is_inside = False


_asking = _Asking()


def seeing_gpu(
    decompositions: Mapping[Any, Callable[..., Any]], applied: Counter[str]
) -> dict[Any, Callable[..., Any]]:
    """The same decompositions, for which a traced tensor is on the GPU.

    Args:
        decompositions: operation -> its decomposition.
        applied: counts the decomposed operations by name.
    """
    return {
        operation: around(decomposition, functools.partial(_told, str(operation), applied))
        for operation, decomposition in decompositions.items()
    }


def _told(name: str, applied: Counter[str], function: Any, /, *args: Any, **keywords: Any) -> Any:
    with replaced(_asking, is_inside=True):
        result = function(*args, **keywords)
    applied[name] += result is not NotImplemented
    return result


@contextmanager
def decompositions_see_gpu(here: torch.device) -> Iterator[None]:
    """While active, decompositions of `seeing_gpu` see a GPU. `here`: where traced tensors of the
    GPU are.
    """

    def as_gpu(kind: str) -> str:
        return DEVICE.type if kind == here.type else kind

    def device_or_gpu(tensor: Any) -> torch.device:
        answer: torch.device = device.__get__(tensor)
        return DEVICE if _asking.is_inside and answer == here else answer

    def outside(
        dispatch: Any, mode: Any, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if not _asking.is_inside:
            return dispatch(mode, function, types, args, kwargs)
        with replaced(_asking, is_inside=False):
            args, kwargs = moved_devices(args, kwargs, here)
            return dispatch(mode, function, types, args, kwargs)

    device = vars(_fakes.FakeTensor)["device"]
    with (
        replaced(_fakes.FakeTensor, device=device.getter(device_or_gpu)),
        watched(_metas, device_hint=lambda hint, tensor: as_gpu(hint(tensor))),
        watched(_fakes.FakeTensorMode, __torch_dispatch__=outside),
        watched(_proxies.ProxyTorchDispatchMode, __torch_dispatch__=outside),
    ):
        yield


# Attention as a GPU has it: `scaled_dot_product_attention` becomes one of torch's fused kernels.
#
# The choice is compiled into builds of torch for CUDA alone, so its rules are followed here
# (`sdp_utils.cpp`: flash attention for half precision without a mask, else the memory-efficient
# one, unless `torch.nn.attention.sdpa_kernel` switched it off). What is chosen is what Inductor
# calls on the GPU. On the CPU, where the call itself runs, the fused operations are written out.

_aten: Any = torch.ops.aten
_attention: Any = _aten.scaled_dot_product_attention.default
_flash: Any = _aten._scaled_dot_product_flash_attention.default
_flash_backward: Any = _aten._scaled_dot_product_flash_attention_backward.default
_efficient: Any = _aten._scaled_dot_product_efficient_attention.default
_efficient_backward: Any = _aten._scaled_dot_product_efficient_attention_backward.default
_Overload: Any = torch._ops.OpOverload
_backends: Any = torch.backends.cuda
_KEY: Any = torch._C.DispatchKey.CompositeImplicitAutograd

_WIDEST_FLASH = 256
"""Of a head, in elements (sdp_utils.cpp, check_head_dim_size_flash)."""

_ALIGNED = {torch.float32: 4, torch.float16: 8, torch.bfloat16: 8}
"""Elements that a head's size is a multiple of, by type, for the memory-efficient kernel
(sdp_utils.cpp, minimum_gemm_alignment)."""


@contextmanager
def attention_of_gpu() -> Iterator[None]:
    """While active, attention is traced as for a GPU."""
    before = _attention.py_kernels.get(_KEY)
    _attention.py_kernels[_KEY] = _chosen
    _attention._dispatch_cache.clear()
    try:
        yield
    finally:
        if before is None:
            del _attention.py_kernels[_KEY]
        else:
            _attention.py_kernels[_KEY] = before
        _attention._dispatch_cache.clear()


def _chosen(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    fused = _fused_for(query, key, value, attn_mask, is_causal, enable_gqa)
    if attn_mask is not None and attn_mask.dtype == torch.bool:  # as what is added to the scores
        hidden, like = ~attn_mask, torch.zeros_like(attn_mask, dtype=query.dtype)
        attn_mask = like.masked_fill_(hidden, float("-inf"))
    if fused is _flash:  # which torch gives a scale always
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
        return _flash(query, key, value, dropout_p, is_causal, False, scale=factor)[0]
    if fused is _efficient:
        sizes = *query.shape[:2], query.shape[2], key.shape[2]
        bias = None if attn_mask is None else attn_mask.expand(*sizes)
        keeps_sums = query.requires_grad or key.requires_grad or value.requires_grad
        return _efficient(query, key, value, bias, keeps_sums, dropout_p, is_causal, scale=scale)[0]
    return _aten._scaled_dot_product_attention_math.default(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )[0]


def _fused_for(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    enable_gqa: bool,
) -> Any:
    """Return the fused operation that a GPU runs, or None if it runs several simple ones."""
    if query.dim() != 4 or not query.shape[0] == key.shape[0] == value.shape[0]:
        return None
    heads, of_keys = query.shape[1], key.shape[1]
    if of_keys != value.shape[1] or (heads % of_keys if enable_gqa else heads != of_keys):
        return None
    head, of_value = query.shape[-1], value.shape[-1]
    is_flash = (
        _backends.flash_sdp_enabled()
        and query.dtype in (torch.float16, torch.bfloat16)
        and (mask is None and head == of_value and head <= _WIDEST_FLASH and head % 8 == 0)
        and not (is_causal and query.shape[2] != key.shape[2])
        and not (enable_gqa and torch.version.hip)
    )
    if is_flash:
        return _flash
    multiple = _ALIGNED.get(query.dtype)
    is_aligned = multiple is not None and head % multiple == 0 and of_value % multiple == 0
    is_on = _backends.mem_efficient_sdp_enabled() and not enable_gqa
    return _efficient if is_aligned and is_on else None


# Written out, for the CPU


def written_out(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Make a graph, in place, call the CPU's operations instead of a GPU's fused attention."""
    return _with_targets(module, _target_on_cpu)


def _with_targets(
    module: torch.fx.GraphModule, target_of: Callable[[torch.fx.Node], Any]
) -> torch.fx.GraphModule:
    """Replace the target of each node of a graph, and of the graphs that it calls."""
    for part in module.modules():  # torch's `control_deps` and checkpoints call graphs
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                node.target = target_of(node)
            part.recompile()
    return module


def _target_on_cpu(node: torch.fx.Node) -> Any:
    target = _on_cpu(node.target)
    if any(_on_cpu(argument) is not argument for argument in node.args):
        return _calling_on_cpu(target)
    return target


def _on_cpu(value: Any) -> Any:
    return ON_CPU.get(value, value) if isinstance(value, _Overload) else value


@functools.cache
def _calling_on_cpu(operation: Callable[..., Any]) -> Callable[..., Any]:
    """An operation that calls another one, such as torch's `run_and_save_rng_state`."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return operation(*map(_on_cpu, args), **kwargs)

    return called


def _weights(
    query: Any, key: Any, bias: Any, dropout: float, causal: bool, scale: Any, draws: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """In single precision: the weights, what dropout multiplies them with, the logarithms of the
    sums of exponentials; and the factor of the scores. `draws` is a generator, or None for torch's.
    """
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    scores = query.float() @ key.float().transpose(-2, -1) * factor
    if bias is not None:
        scores = scores + bias.float()
    if causal:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(~ones.tril(), float("-inf"))
    kept = torch.ones((), device=query.device)
    if dropout > 0:  # as eager attention draws on the CPU
        kept = torch.empty_like(scores).bernoulli_(1 - dropout, generator=draws).div_(1 - dropout)
    return _aten._safe_softmax(scores, -1), kept, scores.logsumexp(-1), factor


def _weighted(
    query: Any, key: Any, value: Any, bias: Any, dropout: float, causal: bool, scale: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and the logarithms of the sums of exponentials."""
    weights, kept, sums, _ = _weights(query, key, bias, dropout, causal, scale, None)
    return (weights * kept) @ value.float(), sums


def _differentiated(
    gradient: Any,
    inputs: tuple[Any, Any, Any, Any],
    dropout: float,
    causal: bool,
    scale: Any,
    seed: Any,
) -> tuple[Any, ...]:
    """The gradients of query, key, value and bias: of a softmax and two products."""
    query, key, value, bias = inputs
    draws = _as_after(seed) if dropout > 0 else None
    weights, kept, _, factor = _weights(query, key, bias, dropout, causal, scale, draws)
    incoming = gradient.float()
    of_weights = incoming @ value.float().transpose(-2, -1) * kept
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
    return (
        of_scores @ key.float() * factor,
        of_scores.transpose(-2, -1) @ query.float() * factor,
        (weights * kept).transpose(-2, -1) @ incoming,
        None if bias is None else of_scores,
    )


def drawing_alike(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Make a Dynamo graph, in place, draw the random numbers of the compiled graphs: what is
    checkpointed is not computed again, which would draw other numbers. Attention returns the
    strides of the fused operations that are written out for the CPU.
    """
    return _with_targets(module, lambda node: _DRAWN_ALIKE.get(node.target, node.target))


def _attention_alike(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    result = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )
    fused = _fused_for(query, key, value, attn_mask, is_causal, enable_gqa)
    if fused is _flash:
        return torch.empty_like(query).copy_(result)
    return result if fused is None else _laid_out(result, query)


def _not_checkpointed(module: torch.fx.GraphModule, *args: Any, **_options: Any) -> Any:
    return module(*args)  # torch.fx names targets in its code, which a lambda does not allow


_DRAWN_ALIKE: dict[Any, Callable[..., Any]] = {
    torch.nn.functional.scaled_dot_product_attention: _attention_alike,
    torch.ops.higher_order.tag_activation_checkpoint: _not_checkpointed,
}


_states: OrderedDict[int, torch.Tensor] = OrderedDict()
"""A number that stands for a seed -> the state of torch's generator before dropout drew."""

_MOST_STATES = 4096


def _new_seed(dropout: float, like: torch.Tensor) -> torch.Tensor:
    """The generator of dropout, which draws nothing if nothing is dropped."""
    if dropout == 0 or like.is_meta:
        return torch.zeros((), dtype=torch.int64, device=like.device)
    number = next(reversed(_states), 0) + 1
    _states[number] = torch.get_rng_state()
    if len(_states) > _MOST_STATES:
        _states.popitem(last=False)
    return torch.tensor(number)


def _as_after(seed: torch.Tensor) -> torch.Generator | None:
    """A generator that draws again what was drawn with a seed; None on the meta device."""
    if seed.is_meta:
        return None
    generator = torch.Generator()
    generator.set_state(_states[int(seed)])
    return generator


def _run_efficient(
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Any = None,
) -> tuple[Any, ...]:
    seed = _new_seed(dropout_p, query)
    result, sums = _weighted(query, key, value, bias, dropout_p, is_causal, scale)
    sums = _padded(sums) if compute_log_sumexp else sums[..., :0]
    return _laid_out(result, query), sums, seed, torch.zeros_like(seed)


def _padded(sums: torch.Tensor) -> torch.Tensor:
    """Sums as the memory-efficient kernel stores them: a multiple of 32 (attention.cu)."""
    return torch.nn.functional.pad(sums, (0, -sums.shape[-1] % 32), value=math.inf)


def _run_efficient_backward(
    grad_out: Any,
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    _out: Any,
    _logsumexp: Any,
    seed: Any,
    _offset: Any,
    dropout_p: float,
    grad_input_mask: Any,
    is_causal: bool = False,
    *,
    scale: Any = None,
) -> tuple[Any, ...]:
    inputs = (query, key, value, bias)
    gradients = _differentiated(grad_out, inputs, dropout_p, is_causal, scale, seed)
    return tuple(
        None if gradient is None or not is_asked else _laid_out(gradient, tensor)
        for gradient, is_asked, tensor in zip(gradients, grad_input_mask, inputs, strict=True)
    )


def _run_flash(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    _debug_mask: bool = False,
    *,
    scale: Any = None,
) -> tuple[Any, ...]:
    seed = _new_seed(dropout_p, query)
    key, value = (_of_every_head(tensor, query) for tensor in (key, value))
    result, sums = _weighted(query, key, value, None, dropout_p, is_causal, scale)
    state = torch.stack([seed, torch.zeros_like(seed)]).to(torch.uint64)
    nothing = query.new_empty(0)
    lengths = query.shape[-2], key.shape[-2]
    unused = torch.zeros((), dtype=torch.uint64, device=query.device)
    made = torch.empty_like(query).copy_(result)
    return made, sums, None, None, *lengths, state, unused, nothing


def _run_flash_backward(
    grad_out: Any,
    query: Any,
    key: Any,
    value: Any,
    _out: Any,
    _logsumexp: Any,
    _cum_seq_q: Any,
    _cum_seq_k: Any,
    _max_q: Any,
    _max_k: Any,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Any,
    _philox_offset: Any,
    *,
    scale: Any = None,
) -> tuple[Any, ...]:
    repeated = (_of_every_head(tensor, query) for tensor in (key, value))
    seed = philox_seed.to(torch.int64).flatten()[0]
    inputs = (query, *repeated, None)
    gradients = _differentiated(grad_out, inputs, dropout_p, is_causal, scale, seed)
    return tuple(
        torch.empty_like(tensor).copy_(gradient.unflatten(1, (tensor.shape[1], -1)).sum(2))
        for gradient, tensor in zip(gradients[:3], (query, key, value), strict=True)
    )


def _of_every_head(tensor: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Keys or values once for each head of the queries, several of which may share them."""
    return tensor.repeat_interleave(query.shape[1] // tensor.shape[1], 1)


def _laid_out(result: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A result as the memory-efficient kernels give it: of the query's type, heads beside each
    other.
    """
    made = result.to(like.dtype)
    return made.transpose(1, 2).contiguous().transpose(1, 2)


ON_CPU: dict[Any, Callable[..., Any]] = {
    _efficient: _run_efficient,
    _efficient_backward: _run_efficient_backward,
    _flash: _run_flash,
    _flash_backward: _run_flash_backward,
}
"""Fused operation -> the same, written out."""
