"""Attention as a GPU has it: `scaled_dot_product_attention` becomes one of torch's fused kernels.

The choice is compiled into builds of torch for CUDA alone, so its rules are followed here
(`sdp_utils.cpp`: flash attention for half precision without a mask, else the memory-efficient one).
What is chosen is what Inductor calls on the GPU. On the CPU, where the call itself runs, the fused
operations are written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_aten: Any = torch.ops.aten
_attention: Any = _aten.scaled_dot_product_attention.default
_flash: Any = _aten._scaled_dot_product_flash_attention.default
_flash_backward: Any = _aten._scaled_dot_product_flash_attention_backward.default
_efficient: Any = _aten._scaled_dot_product_efficient_attention.default
_efficient_backward: Any = _aten._scaled_dot_product_efficient_attention_backward.default
_KEY: Any = torch._C.DispatchKey.CompositeImplicitAutograd

_WIDEST_FLASH = 256
"""Of a head, in elements (sdp_utils.cpp, check_head_dim_size_flash)."""

_ALIGNED = {torch.float32: 4, torch.float16: 8, torch.bfloat16: 8}
"""Elements that a head's size is a multiple of, by type, for the memory-efficient kernel
(sdp_utils.cpp, minimum_gemm_alignment)."""


@contextmanager
def attention_of_gpu() -> Iterator[None]:
    """While active, attention is traced as what a GPU would be given."""
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
    is_plain = query.dim() == 4 and not enable_gqa
    head = query.shape[-1]
    half = query.dtype in (torch.float16, torch.bfloat16)
    if is_plain and half and attn_mask is None and head <= _WIDEST_FLASH and head % 8 == 0:
        return _flash(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
    if is_plain and query.dtype in _ALIGNED and head % _ALIGNED[query.dtype] == 0:
        bias = _bias(attn_mask, query, key)
        keeps_sums = query.requires_grad or key.requires_grad or value.requires_grad
        return _efficient(query, key, value, bias, keeps_sums, dropout_p, is_causal, scale=scale)[0]
    return _aten._scaled_dot_product_attention_math.default(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )[0]


def _bias(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    """A mask as what is added to the scores, for every head."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, float("-inf"))
    return mask.expand(*query.shape[:2], query.shape[2], key.shape[2])


# Written out, for the CPU


def written_out(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Have a graph, in place, call what the CPU has instead of a GPU's fused attention."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in ON_CPU:
            node.target = ON_CPU[node.target]
    module.recompile()
    return module


def is_seed(node: torch.fx.Node) -> bool:
    """Whether a node's value is a seed, or another number, that fused attention hands on."""
    source, value = node.args[0] if node.args else None, node.meta.get("val")
    fused = {*ON_CPU, *ON_CPU.values()}
    is_of_fused = isinstance(source, torch.fx.Node) and source.target in fused
    return is_of_fused and isinstance(value, torch.Tensor) and not value.is_floating_point()


def _weights(
    query: Any, key: Any, bias: Any, dropout: float, causal: bool, scale: Any, seed: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """In single precision: the weights, what dropout multiplies them with, the logarithms of the
    sums of exponentials; and the factor of the scores.
    """
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    scores = query.float() @ key.float().transpose(-2, -1) * factor
    if bias is not None:
        scores = scores + bias.float()
    if causal:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(~ones.tril(), float("-inf"))
    kept = torch.ones((), device=query.device)
    if dropout > 0:
        generator = None if query.is_meta else torch.Generator().manual_seed(int(seed))
        drawn = torch.rand(scores.shape, generator=generator, device=query.device)
        kept = (drawn >= dropout) / (1 - dropout)
    return scores.softmax(-1), kept, scores.logsumexp(-1), factor


def _weighted(
    query: Any, key: Any, value: Any, bias: Any, dropout: float, causal: bool, scale: Any, seed: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and the logarithms of the sums of exponentials."""
    weights, kept, sums, _ = _weights(query, key, bias, dropout, causal, scale, seed)
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
    weights, kept, _, factor = _weights(query, key, bias, dropout, causal, scale, seed)
    incoming = gradient.float()
    of_weights = incoming @ value.float().transpose(-2, -1) * kept
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
    return (
        of_scores @ key.float() * factor,
        of_scores.transpose(-2, -1) @ query.float() * factor,
        (weights * kept).transpose(-2, -1) @ incoming,
        None if bias is None else of_scores,
    )


def _new_seed(dropout: float, like: torch.Tensor) -> torch.Tensor:
    """What dropout draws with: nothing is drawn for it where nothing is dropped."""
    if dropout > 0:
        return torch.randint(0, 2**31, (), dtype=torch.int64, device=like.device)
    return torch.zeros((), dtype=torch.int64, device=like.device)


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
    result, sums = _weighted(query, key, value, bias, dropout_p, is_causal, scale, seed)
    sums = sums if compute_log_sumexp else sums[..., :0]
    return _laid_out(result, query), sums, seed, torch.zeros_like(seed)


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
    result, sums = _weighted(query, key, value, None, dropout_p, is_causal, scale, seed)
    state = torch.stack([seed, torch.zeros_like(seed)]).to(torch.uint64)
    nothing = query.new_empty(0)
    lengths = query.shape[-2], key.shape[-2]
    unused = torch.empty((), dtype=torch.uint64, device=query.device)
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
    inputs = (query, key, value, None)
    seed = philox_seed.to(torch.int64).flatten()[0]
    gradients = _differentiated(grad_out, inputs, dropout_p, is_causal, scale, seed)
    return tuple(
        torch.empty_like(tensor).copy_(gradient)
        for gradient, tensor in zip(gradients[:3], inputs[:3], strict=True)
    )


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
