"""What is remembered of a kernel on a target, so that a warm call is cheap."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab import triton_api
from kernellab.common.arguments import plain_scalar
from kernellab.compiler.specialization.argument_values import plain_value
from kernellab.errors import ArgumentError, OptionError, nearest
from kernellab.records import Origin, Specialization, Target


@dataclass(frozen=True)
class BoundCall:
    """One call of a kernel, bound to its parameters and specialized for a target."""

    specialization: Specialization
    values: Mapping[str, Any]
    """Every parameter by name, defaults applied. NumPy arrays have become torch tensors
    that share their memory; a parameter of which only the type is known has its type string."""
    options: Mapping[str, Any]
    """Keywords that are not kernel parameters: num_warps, num_stages, ..."""
    key: Hashable = None
    """Equal keys of one kernel and target mean equal specializations;
    None where some constant cannot be hashed."""
    stated: frozenset[str] = frozenset()
    """Parameters of which only the type is known: such a call can be compiled, not run."""
    readonly: frozenset[str] = frozenset()
    """Parameters whose NumPy array is read-only: the kernel must not store there."""


_LARGEST_MEMORY = 1024
"""Specializations remembered per kernel and target;
a kernel called with ever new constants starts over after that."""


class KnownKernel:
    """One kernel on one target: Triton's binder for it, and the specializations that it has had."""

    def __init__(self, kernel: Any, target: Target) -> None:
        _check_parameters(kernel)
        self._kernel = weakref.ref(kernel)
        self.name: str = kernel.__name__
        self.target = target
        self.parameters = list(kernel.params)
        self.by_name = {parameter.name: parameter for parameter in kernel.params}
        self.binder = triton_api.create_binder(kernel, target)
        self._constexprs = [number for number, p in enumerate(kernel.params) if p.is_constexpr]
        self._specializations: dict[Hashable, Specialization] = {}
        self._accepted_options: set[str] = set()

    @property
    def kernel(self) -> Any:
        return self._kernel()

    def bind_natively(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """What Triton's binder makes of a call; None where something in it is unusual, or wrong."""
        try:
            return self.binder(
                *[plain_value(value) for value in args],
                **{name: plain_value(value) for name, value in keywords.items()},
            )
        except Exception:
            return None

    def bound(
        self,
        values: Mapping[str, Any],
        types: Sequence[Any],
        options: Mapping[str, Any],
        stated: Mapping[str, Origin] | None = None,
        readonly: frozenset[str] = frozenset(),
    ) -> BoundCall:
        """The BoundCall of what Triton's binder gave;
        `stated` names the parameters known by type only.
        """
        stated = stated or {}
        key: Hashable = (
            tuple(types),
            tuple([_exact(types[number][1]) for number in self._constexprs]),
            tuple(stated.items()),
        )
        try:
            specialization = self._specializations.get(key)
        except TypeError:  # A constant that cannot be hashed, a list for example.
            key = None
            specialization = None
        if specialization is None:
            specialization = self._specialize(values, types, stated)
            if len(self._specializations) >= _LARGEST_MEMORY:
                self._specializations.clear()
            if key is not None:
                self._specializations[key] = specialization
        return BoundCall(
            specialization,
            values,
            options,
            key,
            frozenset(stated) if stated else frozenset(),
            readonly,
        )

    def _specialize(
        self, values: Mapping[str, Any], types: Sequence[Any], stated: Mapping[str, Origin]
    ) -> Specialization:
        signature, constants, attributes = triton_api.make_specialization(
            self.kernel, values, types, self.target
        )
        origins: dict[str, Origin] = {name: stated.get(name, "launch") for name in self.by_name}
        return Specialization(signature, constants, attributes, origins)

    def check_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options as Python's values; raise OptionError for an option that the backend
        does not have, or a value that it refuses.
        """
        options = {name: plain_scalar(value) for name, value in options.items()}
        text = repr(options)
        if text in self._accepted_options:
            return options
        known = triton_api.option_names(self.target)
        for name in options:
            if name not in known:
                self._refuse_option(name, known)
        triton_api.check_options(options, self.target)
        if len(self._accepted_options) >= _LARGEST_MEMORY:
            self._accepted_options.clear()
        self._accepted_options.add(text)
        return options

    def _refuse_option(self, name: str, known: Sequence[str]) -> None:
        usual = [option for option in _USUAL_OPTIONS if option in known]
        suggestion = nearest(name, [*self.by_name, *known])
        raise OptionError(
            f"{self.name!r} has no parameter {name!r}, and {self.target} has no such option.",
            advice=(
                f"{suggestion} Parameters: {', '.join(self.by_name)}. Options: {', '.join(usual)}, "
                "..."
            ).strip(),
            position=triton_api.definition_of(self.kernel),
        )


_USUAL_OPTIONS = (
    "num_warps",
    "num_stages",
    "num_ctas",
    "maxnreg",
    "waves_per_eu",
    "enable_fp_fusion",
)

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional-only, which the '/' makes it",
    inspect.Parameter.KEYWORD_ONLY: "keyword-only, since it follows a '*'",
    inspect.Parameter.VAR_POSITIONAL: "for any number of arguments",
    inspect.Parameter.VAR_KEYWORD: "for any number of keywords",
}


def _check_parameters(kernel: Any) -> None:
    """Refuse a kernel with parameters that Triton's front end leaves out."""
    for name, parameter in kernel.signature.parameters.items():
        if parameter.kind in _KINDS:
            raise ArgumentError(
                f"the parameter {name!r} of {kernel.__name__!r} is {_KINDS[parameter.kind]}: "
                "Triton's front end does not see it.",
                advice="Write the kernel's parameters without /, * and **; a tuple of tensors is "
                "one parameter.",
                position=triton_api.parameter_position(kernel, name),
            )


_known_kernels: dict[tuple[int, Target], KnownKernel] = {}


def known_kernel(kernel: Any, target: Target) -> KnownKernel:
    # By identity: hashing a JIT function reads the source of everything it calls.
    key = (id(kernel), target)
    known = _known_kernels.get(key)
    if known is None:
        known = _known_kernels[key] = KnownKernel(kernel, target)
        weakref.finalize(kernel, _known_kernels.pop, key, None)
    return known


def _exact(value: Any) -> object:
    """A key that distinguishes constants that compare equal and compile differently:
    1, True and 1.0; 0.0 and -0.0.
    """
    kind = type(value)
    if isinstance(value, tuple):
        return (kind, *[_exact(item) for item in value])
    return (kind, repr(value)) if isinstance(value, float) else kind
