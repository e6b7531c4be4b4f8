"""flag_gems: ATen's operations in Triton, beside ATen's own on the CPU."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.foreign import samples
from benchmarks.foreign.samples import Pair, Samples, made

gems = importlib.import_module("flag_gems")
SAMPLES = Samples()
GEMS: dict[str, Any] = {entry[0]: entry[1] for entry in gems._FULL_CONFIG}

Maker = Callable[[], Any]


def add(name: str, *arguments: Any, note: str = "", **keywords: Any) -> None:
    """A sample that compares an operation, by its name in ATen, with ATen's own: what it gives,
    and what is left in its arguments. Arguments that can be called are made when it runs.
    """
    packet, _, overload = name.partition(".")
    operation = getattr(torch.ops.aten, packet)
    if overload:
        operation = getattr(operation, overload)

    def run() -> Iterator[Pair]:
        given = made(arguments)
        own = [one.clone() if isinstance(one, torch.Tensor) else one for one in given]
        got, expected = GEMS[name](*own, **keywords), operation(*given, **keywords)
        for number, (one, other) in enumerate(zip(_flat(got), _flat(expected), strict=True)):
            yield Pair(f"output {number}", one, other)
        for number, (one, other) in enumerate(zip(own, given)):
            if isinstance(other, torch.Tensor):
                yield Pair(f"argument {number} afterwards", one, other)

    SAMPLES[f"{name} {note}".strip()] = run


def _flat(value: Any) -> list[Any]:
    return [*value] if isinstance(value, tuple | list) else [value]


def add_all(names: str, *arguments: Any, note: str = "", **keywords: Any) -> None:
    """The same for several operations, their names in one text."""
    for name in names.split():
        add(name, *arguments, note=note, **keywords)


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Maker:
    return partial(samples.drawn, *shape, dtype=dtype)


def positive(*shape: int) -> Maker:
    return lambda: samples.drawn(*shape).abs() + 0.1


def share(*shape: int, dtype: torch.dtype = torch.float32) -> Maker:
    """Between 0 and 1."""
    return lambda: (torch.rand(*shape) * 0.98 + 0.01).to(dtype)


def integers(*shape: int, low: int = -50, high: int = 50) -> Maker:
    return partial(torch.randint, low, high, shape, dtype=torch.int32)


def places(*shape: int, below: int) -> Maker:
    return partial(torch.randint, below, shape)


def bits(*shape: int) -> Maker:
    return lambda: torch.randint(2, shape).bool()


def special(*shape: int) -> torch.Tensor:
    """Some of it not finite."""
    x = samples.drawn(*shape)
    x.view(-1)[::5], x.view(-1)[1::7], x.view(-1)[2::9] = float("nan"), float("inf"), -float("inf")
    return x


SHAPE = (5, 37)
X, Y, INTEGERS = drawn(*SHAPE), drawn(*SHAPE), integers(*SHAPE)

add_all(
    "abs abs_ absolute arcsinh arcsinh_ asinh_ angle atan atan_ celu celu_ ceil ceil_ cos cos_ "
    "cosh cosh_ elu elu_ erf erf_ exp exp_ exp2 exp2_ expm1 expm1_ floor_ gelu gelu_ "
    "hardsigmoid hardswish_ i0 i0_ isfinite isinf isnan isneginf log_sigmoid nan_to_num neg neg_ "
    "reciprocal reciprocal_ relu relu_ relu6 round round_ selu selu_ sgn_ sigmoid sigmoid_ "
    "signbit silu silu_ sin sin_ sinh_ softplus softshrink special_i1 special_i0e square square_ "
    "tan tan_ tanh tanh_ digamma_ alias_copy lift_fresh_copy t_copy triu triu_ tril amax aminmax "
    "all any max min argmax argmin prod sum mean count_nonzero nonzero zero zero_ zeros_like "
    "ones_like trace var diag_embed",
    X,
)
add("glu", drawn(5, 38))
add_all(
    "log log10 log10_ rsqrt rsqrt_ sqrt sqrt_ log1p_ digamma_", positive(*SHAPE), note="positive"
)
add_all("acos arctanh_ logit logit_", share(*SHAPE))
add_all(
    "isfinite isinf isnan isneginf nan_to_num relu sigmoid tanh exp amax max",
    partial(special, *SHAPE),
    note="not finite",
)
add_all(
    "abs neg bitwise_not bitwise_not_ sum prod max min argmax amax any all square",
    integers(*SHAPE, high=3),
    note="of integers",
)
add("abs_", lambda: samples.drawn(7, 130).t(), note="transposed")
add("add.Tensor", lambda: samples.drawn(7, 130).t(), drawn(130, 7), note="transposed")
add_all("logical_not any all sum count_nonzero", bits(*SHAPE), note="of booleans")
for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
    functions = "exp gelu silu tanh sum mean rsqrt sigmoid sin sqrt"
    add_all(functions, share(*SHAPE, dtype=dtype), note=name)

add_all(
    "add.Tensor add_.Tensor sub.Tensor sub_.Tensor mul.Tensor mul_.Tensor atan2 copysign fmin "
    "hypot maximum minimum logaddexp eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor "
    "greater.Tensor div.Tensor div_.Tensor true_divide.Tensor isclose floor_divide "
    "remainder.Tensor remainder_.Tensor logical_and logical_or logical_xor mse_loss "
    "soft_margin_loss equal allclose",
    X,
    Y,
)
add_all("pow.Tensor_Tensor polar", positive(*SHAPE), Y)
add_all(
    "add.Tensor sub.Tensor mul.Tensor maximum div.Tensor eq.Tensor atan2",
    drawn(4, 1, 9),
    drawn(6, 1),
    note="broadcast",
)
add_all(
    "add.Tensor mul.Tensor bitwise_and.Tensor bitwise_or.Tensor floor_divide remainder.Tensor "
    "maximum eq.Tensor div.Tensor",
    INTEGERS,
    integers(*SHAPE, low=1),
    note="of integers",
)
add_all("bitwise_left_shift bitwise_right_shift", INTEGERS, integers(*SHAPE, low=0, high=6))
add_all(
    "eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar greater.Scalar div.Scalar "
    "div_.Scalar floor_divide.Scalar remainder.Scalar pow.Tensor_Scalar true_divide.Scalar "
    "clamp_min fill.Scalar fill_.Scalar",
    positive(*SHAPE),
    0.7,
)
add_all(
    "bitwise_and.Scalar bitwise_or.Scalar remainder.Scalar floor_divide.Scalar",
    INTEGERS,
    6,
    note="of integers",
)
for mode in ("trunc", "floor"):
    add("div.Tensor_mode", X, Y, note=mode, rounding_mode=mode)
    some = integers(*SHAPE, low=1)
    add("div.Tensor_mode", INTEGERS, some, note=f"{mode} of integers", rounding_mode=mode)

add("addcdiv", X, Y, positive(*SHAPE), value=0.3)
add("addcmul", X, Y, drawn(*SHAPE), value=0.3)
add("clamp", X, -0.5, 0.7)
add("clamp.Tensor", X, lambda: samples.drawn(*SHAPE) - 1, lambda: samples.drawn(*SHAPE) + 1)
add("lerp.Scalar", X, Y, 0.3)
add("lerp.Tensor", X, Y, share(*SHAPE))
add("where.self", bits(*SHAPE), X, Y)
add_all("masked_fill.Scalar masked_fill_.Scalar", X, bits(*SHAPE), 2.5)
add("masked_select", X, bits(*SHAPE))
add("masked_scatter", X, bits(*SHAPE), drawn(300))
add("threshold", X, 0.1, 7.0)
add("prelu", drawn(3, 5, 7), drawn(5))
add_all("gelu_backward silu_backward", X, Y)
add_all("sigmoid_backward tanh_backward", X, share(*SHAPE))
add("elu_backward", X, 1.0, 1.0, 1.0, False, Y)
add("glu_backward", drawn(5, 19), drawn(5, 38), -1)
add("threshold_backward", X, Y, 0.1)

CUBE = drawn(4, 19, 6)
for dim in (0, 1, 2):
    note = f"along {dim}"
    add_all("_softmax _log_softmax", CUBE, dim, False, note=note)
    add_all("amax sum.dim_IntList mean.dim", CUBE, [dim], note=note)
    add_all("argmax argmin cumsum cummax cummin max.dim min.dim", CUBE, dim, note=note)
    add_all("all.dim any.dim prod.dim_int", CUBE, dim, note=note)
    add("sort", drawn(*(9 if n == dim else 2 for n in range(3))), dim, note=note)
    add("index_select", CUBE, dim, lambda: torch.tensor([3, 0, 2]), note=note)
    add("gather", CUBE, dim, places(3, 8, 5, below=4), note=note)
    line = partial(torch.arange(3).view([3 if n == dim else 1 for n in range(3)]).expand, 3, 3, 3)
    add("scatter.src", CUBE, dim, line, drawn(3, 3, 3), note=note)
    where = places(3, 8, 5, below=4)
    add("scatter.reduce", CUBE, dim, where, drawn(3, 8, 5), note=f"add {note}", reduce="add")
    rows = drawn(*(3 if n == dim else 4 for n in range(3)))
    add("index_add", drawn(4, 4, 4), dim, lambda: torch.tensor([3, 0, 3]), rows, note=note)
    two = partial(made, [drawn(4, 5, 6), drawn(4, 5, 6)])
    add_all("cat stack", two, dim, note=note)
    add("flip", CUBE, [dim], note=note)
    add("roll", CUBE, [2], [dim], note=note)
    add("var_mean.correction", CUBE, [dim], note=note, correction=1)
    add("linalg_vector_norm", CUBE, 2.0, [dim], note=note)
add("topk", CUBE, 3, 2)
add("sum.dim_IntList", CUBE, [0, 2], True, note="along two, kept")
add("sort.stable", integers(3, 50, high=-40), stable=True, dim=-1)
add("std.correction", X, [1], correction=1)
add("_softmax", drawn(3, 5000), 1, False, note="long rows")
add("_softmax_backward_data", X, lambda: samples.drawn(*SHAPE).softmax(1), 1, torch.float32)
add("_log_softmax_backward_data", X, lambda: samples.drawn(*SHAPE).log_softmax(1), 1, torch.float32)
add("_safe_softmax", lambda: special(5, 37).nan_to_num(posinf=1.0, nan=-float("inf")), -1)

HALF = torch.float16
add("mm", drawn(33, 45), drawn(45, 20))
add("mm", drawn(33, 45, dtype=HALF), drawn(45, 20, dtype=HALF), note="fp16")
add("mm", drawn(1, 45), drawn(45, 20), note="one row")
add("addmm", drawn(20), drawn(33, 45), drawn(45, 20))
add("bmm", drawn(3, 17, 33), drawn(3, 33, 20))
add("baddbmm", drawn(3, 17, 20), drawn(3, 17, 33), drawn(3, 33, 20))
add("mv", drawn(33, 45), drawn(45))
add("addmv", drawn(33), drawn(33, 45), drawn(45))
add("addr", drawn(33, 45), drawn(33), drawn(45))
add_all("dot vdot", drawn(3000), drawn(3000))
add("kron", drawn(3, 5), drawn(4, 2))

add("native_layer_norm", X, [37], drawn(37), drawn(37), 1e-5)
add("native_group_norm", drawn(2, 6, 5, 7), drawn(6), drawn(6), 2, 6, 35, 3, 1e-5)
moments = (drawn(6), drawn(6), drawn(6), positive(6))
add("native_batch_norm", drawn(4, 6, 9), *moments, True, 0.1, 1e-5)
add("embedding", drawn(20, 33), places(4, 7, below=20))
add("embedding_dense_backward", drawn(4, 7, 33), places(4, 7, below=20), 20, -1, False)
add("nll_loss_forward", drawn(9, 13), places(9, below=13), None, 1, -100)
add("nll_loss2d_forward", drawn(3, 5, 4, 6), places(3, 4, 6, below=5), None, 1, -100)
IMAGE = drawn(2, 4, 12, 15)
add("max_pool2d_with_indices", IMAGE, [3, 3], [2, 2], [1, 1])
add("avg_pool2d", IMAGE, [3, 3], [2, 2], [1, 1])
add("conv1d", drawn(2, 4, 30), drawn(6, 4, 3), drawn(6), [2], [1])
add("conv2d", IMAGE, drawn(6, 4, 3, 3), drawn(6), [2, 2], [1, 1])
add("conv2d", IMAGE, drawn(6, 2, 3, 3), drawn(6), [1, 1], [0, 0], [1, 1], 2, note="in groups")
add("conv3d", drawn(1, 3, 6, 7, 8), drawn(4, 3, 3, 3, 3), drawn(4))
add("upsample_nearest1d", drawn(2, 3, 7), [15])
add("upsample_nearest2d", drawn(2, 3, 7, 5), [15, 9])
add("upsample_linear1d", drawn(2, 3, 7), [15], False)
add_all("upsample_bicubic2d _upsample_bicubic2d_aa", drawn(2, 3, 7, 5), [15, 9], False)
add("pixel_unshuffle", drawn(2, 3, 8, 6), 2)
add_all("reflection_pad1d replication_pad1d", drawn(2, 3, 9), [2, 3])
add("reflection_pad2d", drawn(2, 3, 9, 8), [2, 3, 1, 4])
add("replication_pad3d", drawn(2, 3, 4, 5, 6), [2, 1, 0, 1, 1, 2])
add("constant_pad_nd", drawn(4, 9), [1, 2, 3, 0], 0.5)

add("arange.start_step", 3, 50, 4)
add("linspace", 0.0, 3.0, 31)
add("logspace", 0.0, 2.0, 31)
add("eye", 9)
add("eye.m", 9, 5)
add("full", [4, 9], 2.5)
add("full_like", drawn(4, 9), 2.5)
add("diag", drawn(9))
add("diag_embed", drawn(3, 9), 1, note="above")
add_all("repeat tile", drawn(4, 9), [2, 3])
add("repeat_interleave.self_int", drawn(4, 9), 3, 1)
add("repeat_interleave.self_Tensor", drawn(4, 9), lambda: torch.tensor([2, 0, 3, 1]), 0)
CELLS = partial(made, [lambda: torch.tensor([3, 0, 1]), lambda: torch.tensor([8, 8, 2])])
add("index.Tensor", drawn(5, 9), CELLS)
add("index_put", drawn(5, 9), CELLS, drawn(3))
add("slice_scatter", drawn(5, 9), drawn(5, 3), 1, 2, 8, 2)
add("select_scatter", drawn(5, 9), drawn(9), 0, 2)
add("scatter_add_", drawn(5, 9), 1, places(5, 7, below=9), drawn(5, 7))
add("isin.Tensor_Tensor", integers(5, 9), integers(30))
add("_unique2", integers(100, low=0, high=12), True, True, True)
add("bincount", integers(100, low=0, high=12))
add("quantile", X, lambda: torch.tensor([0.1, 0.5]), 1)
add("hstack", partial(made, [drawn(4, 3), drawn(4, 5)]))
add("vstack", partial(made, [drawn(3, 4), drawn(5, 4)]))
add("nonzero", bits(5, 37), note="of booleans")
