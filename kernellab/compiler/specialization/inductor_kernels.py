"""Kernels that Inductor generates, as Triton's own: a JIT function of which everything that
Inductor decided holds, with its options around it, and its configs around those.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from types import FunctionType
from typing import Any

import triton

from kernellab import triton_api
from kernellab.compiler.targets import parse_target
from kernellab.errors import ArgumentError
from kernellab.records import Target
from kernellab.torch_api import inductor


class InductorKernel(triton_api.JITFunction):  # type: ignore[misc]
    """The function of one of Inductor's kernels. Triton's binder makes of a launch what Inductor
    compiles: integers have the width that Inductor gave them, and nothing counts as divisible, or
    as 1, that Inductor does not promise.

    Attributes:
        target: the GPU that it was generated for.
        types: parameter -> its type string.
        constants: parameter -> what is compiled in, besides what its configs say.
    """

    def __init__(self, generated: inductor.Generated) -> None:
        self._meta = generated.meta
        self.target: Target = parse_target(_target_name(generated))
        self.constants = generated.constants
        self.types = {
            name: f"{type_name}:16" if name in generated.divisible else type_name
            for name, type_name in generated.signature.items()
            if type_name != "constexpr" and name not in generated.constants
        }
        undecided = [name for name in self.types if name not in generated.divisible]
        super().__init__(
            _annotated(generated.function, generated.signature), do_not_specialize=undecided
        )

    def added(self, given: Collection[str]) -> dict[str, Any]:
        """Constants that a call need not give, where it does not."""
        return {name: value for name, value in self.constants.items() if name not in given}

    def own_grid(self, values: Mapping[str, Any]) -> tuple[int, int, int]:
        """The grid that Inductor launches it on.

        Raises:
            ArgumentError: it is said with each launch.
        """
        if not inductor.has_grid(self._meta):
            raise ArgumentError(
                f"the grid of {self.__name__!r} does not follow from its arguments",
                advice="Pass the grid that the generated code passes to its run().",
                position=triton_api.definition_of(self),
            )
        return inductor.grid_of(self._meta, values)


def _target_name(generated: inductor.Generated) -> str:
    architecture = generated.architecture
    return f"sm_{architecture}" if generated.backend == "cuda" else architecture


def _annotated(function: FunctionType, signature: Mapping[str, str]) -> FunctionType:
    """The function, but that its numbers and constants are annotated as such."""
    twin = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__module__, twin.__qualname__ = function.__module__, function.__qualname__
    numbers = {name: type for name, type in signature.items() if not type.startswith("*")}
    twin.__annotations__ = {**function.__annotations__, **numbers}
    return twin


_plain: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()
"""Of each of Inductor's kernels, its configs, and what it is as a kernel of Triton's."""


def as_triton_kernel(kernel: Any) -> Any:
    """One of Inductor's kernels as an autotuner of Triton's; anything else as it is.

    Raises:
        ArgumentError: its source is not in this process.
    """
    if not inductor.is_inductor_kernel(kernel):
        return kernel
    known = _plain.get(kernel)
    generated = inductor.generated(kernel)
    if known is None or known[0] != generated.configs:
        known = _plain[kernel] = generated.configs, _made(generated, kernel)
    return known[1]


def _made(generated: inductor.Generated, kernel: Any) -> Any:
    if generated.function is None:
        raise ArgumentError(
            f"the source of Inductor's kernel {kernel.fn.__name__!r} stayed in the process that "
            "compiled it",
            advice="Set torch._inductor.config.compile_threads = 1 before torch.compile.",
        )
    plain = InductorKernel(generated)
    options = dict(generated.options)
    if not triton_api.made_of(plain).has_assertions:
        del options["debug"], options["sanitize_overflow"]  # which change nothing then
    held = triton.heuristics({name: _always(value) for name, value in options.items()})(plain)
    return triton.autotune(configs=list(generated.configs), key=[])(held if options else plain)


def _always(value: Any) -> Any:
    return lambda _arguments: value
