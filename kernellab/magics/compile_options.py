"""The compile options on the line of a magic, and the call that a kernel
is then compiled for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from kernellab import triton_api
from kernellab.compiler.binding import BoundCall, bind
from kernellab.compiler.kernels import InductorKernel, assume, unwrap_kernel
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.magics.options import stated
from kernellab.records import Launch, Target
from kernellab.torch_api.inductor import is_inductor_kernel


@dataclass(frozen=True)
class CompileOptions:
    """The values of the options in `tilekernel.COMPILING`."""

    target: Target
    signature: tuple[Sequence[Any], Mapping[str, Any]] | None
    constants: Mapping[str, Any]
    options: Mapping[str, Any]


def compile_options_of(
    given: Mapping[str, Any], default: Target = DEFAULT_TARGET
) -> CompileOptions:
    """The options of a parsed line; `default` is the target where it names none."""
    return CompileOptions(
        target=given["target"] or default,
        signature=given["sig"],
        constants=dict(chain.from_iterable(given["constexpr"])),
        options=stated(given, "num_warps", "num_stages"),
    )


def generated_call(
    generated: Any, compile_options: CompileOptions
) -> tuple[InductorKernel, BoundCall, Target]:
    """One of Inductor's kernels as Inductor compiles it, its first config counting: the plain
    kernel, the call and the GPU, which is the line's where that names one.

    Raises:
        ArgumentError: constants or types that do not fit, or its source is not in this process.
    """
    constants = compile_options.constants
    plain, values = unwrap_kernel(generated, (), {}, constants)
    args, named = compile_options.signature or ((), assume(plain, {**values, **constants}))
    is_own = compile_options.target == DEFAULT_TARGET
    target = plain.target if is_own else compile_options.target
    call = bind(
        plain, args, {**named, **values}, target,
        options=compile_options.options, constants=constants,
    )  # fmt: skip
    return plain, call, target


def launched_call(launch: Launch | BoundCall, compile_options: CompileOptions) -> BoundCall:
    """The call that a launch made, with the options that it gave itself
    before those of the line.
    """
    return BoundCall(launch.specialization, {}, {**compile_options.options, **launch.options})


def is_kernel(thing: Any) -> bool:
    """Whether it can be compiled: a JIT function, also inside `triton.autotune`
    or `triton.heuristics`, or one of Inductor's.
    """
    kinds = triton_api.JITFunction | triton_api.Autotuner | triton_api.Heuristics
    return isinstance(thing, kinds) or is_inductor_kernel(thing)


def stated_call(kernel: Any, compile_options: CompileOptions) -> BoundCall:
    """The call that the line states; types that it does not state come
    from annotations, or are assumed.

    Raises:
        ArgumentError: types or constants do not fit the kernel, or something is missing.
    """
    constants = {
        name: v for name, v in compile_options.constants.items() if name in kernel.arg_names
    }
    args, named = compile_options.signature or ((), assume(kernel, constants))
    return bind(
        kernel,
        args,
        named,
        compile_options.target,
        options=compile_options.options,
        constants=constants,
    )
