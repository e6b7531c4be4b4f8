"""How the arguments of a call become a `Specialization`: types, promises, constants.

Real values go through Triton's own binder, so that the signature, constants and attributes are
those of a launch on the GPU. Type strings ("*fp16:16", "i32") replace values that do not exist yet,
and may be mixed with values.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from kernellab import triton_api
from kernellab.common.arguments import plain_scalar
from kernellab.common.text import counted, shown
from kernellab.compiler import arguments
from kernellab.errors import (
    ArgumentError,
    MissingArguments,
    OptionError,
    SourcePosition,
    nearest,
    suggestion,
)
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
    """Equal keys of one kernel and target mean equal specializations; None without a hash."""
    stated: frozenset[str] = frozenset()
    """Parameters of which only the type is known: such a call can be compiled, not run."""
    readonly: frozenset[str] = frozenset()
    """Parameters whose NumPy array is read-only: the kernel must not store there."""


_LARGEST_MEMORY = 1024
"""Specializations kept per kernel and target; beyond it, the memory starts over."""


class KnownKernel:
    """One kernel on one target: Triton's binder for it, and its specializations so far."""

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
        """The result of Triton's binder for a call; None if something in it is unusual or wrong."""
        try:
            return self.binder(
                *[arguments.plain_value(value) for value in args],
                **{name: arguments.plain_value(value) for name, value in keywords.items()},
            )
        except Exception:  # objects of the user's raise anything, and are looked at again
            return None

    def bound(
        self,
        values: Mapping[str, Any],
        types: Sequence[Any],
        options: Mapping[str, Any],
        stated: Mapping[str, Origin] | None = None,
        readonly: frozenset[str] = frozenset(),
    ) -> BoundCall:
        """The BoundCall of what Triton's binder gave; `stated`: parameters known by type only."""
        stated = stated or {}
        key: Hashable = (
            tuple(types),
            tuple([_exact(types[number][1]) for number in self._constexprs]),
            tuple(stated.items()),
        )
        try:
            specialization = self._specializations.get(key)
        except TypeError:  # A constant that cannot be hashed, a list for example.
            key = specialization = None
        if specialization is None:
            specialization = self._specialize(values, types, stated)
            if len(self._specializations) >= _LARGEST_MEMORY:
                self._specializations.clear()
            if key is not None:
                self._specializations[key] = specialization
        return BoundCall(specialization, values, options, key, frozenset(stated), readonly)

    def _specialize(
        self, values: Mapping[str, Any], types: Sequence[Any], stated: Mapping[str, Origin]
    ) -> Specialization:
        signature, constants, attributes = triton_api.make_specialization(
            self.kernel, values, types, self.target
        )
        origins: dict[str, Origin] = {name: stated.get(name, "launch") for name in self.by_name}
        return Specialization(signature, constants, attributes, origins)

    def check_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options as Python's values; raise OptionError for what the backend refuses."""
        options = {name: plain_scalar(value) for name, value in options.items()}
        text = repr(options)
        if text not in self._accepted_options:
            known = triton_api.option_names(self.target)
            for name in options:
                if name not in known:
                    self._refuse_option(name, known)
            triton_api.check_options(options, self.target)
            if len(self._accepted_options) >= _LARGEST_MEMORY:
                self._accepted_options.clear()
            self._accepted_options.add(text)
        # None is the backend's default, as for Triton.
        return {name: value for name, value in options.items() if value is not None}

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
    "num_warps", "num_stages", "num_ctas", "maxnreg", "waves_per_eu", "enable_fp_fusion",
)  # fmt: skip

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional-only, which the '/' makes it",
    inspect.Parameter.KEYWORD_ONLY: "keyword-only, since it follows a '*'",
    inspect.Parameter.VAR_POSITIONAL: "for any number of arguments",
    inspect.Parameter.VAR_KEYWORD: "for any number of keywords",
}

_REMEDIES = {
    inspect.Parameter.POSITIONAL_ONLY: "Remove the '/' from the signature.",
    inspect.Parameter.KEYWORD_ONLY: "Remove the '*' from the signature.",
    inspect.Parameter.VAR_POSITIONAL: "Replace *{0} with {0}, and pass a tuple for it.",
    inspect.Parameter.VAR_KEYWORD: "Replace **{0} with one parameter for each value.",
}


def _check_parameters(kernel: Any) -> None:
    """Refuse a kernel with parameters that Triton's front end ignores."""
    for name, parameter in kernel.signature.parameters.items():
        if parameter.kind in _KINDS:
            raise ArgumentError(
                f"The parameter {name!r} of {kernel.__name__!r} is {_KINDS[parameter.kind]}, and "
                "Triton does not support such parameters.",
                advice=_REMEDIES[parameter.kind].format(name),
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
    """A key that distinguishes 1, True and 1.0, and 0.0 and -0.0."""
    kind = type(value)
    if isinstance(value, tuple):
        return (kind, *[_exact(item) for item in value])
    return (kind, repr(value)) if isinstance(value, float) else kind


class CarefulBinding:
    """Binds one call by name; slower than Triton's binder, but explains what is wrong."""

    def __init__(
        self,
        known: KnownKernel,
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        options: Mapping[str, Any],
        constants: Mapping[str, Any],
    ) -> None:
        self.known = known
        self.kernel = known.kernel
        self.given: dict[str, Any] = {}
        self.options = dict(options)
        self.constants = dict(constants)
        self.stated: dict[str, Origin] = {}
        self.types: dict[str, tuple[Any, Any]] = {}
        self.readonly: set[str] = set()
        self._take_positional(args)
        self._take_keywords(keywords)
        self._take_constants()

    def finish(self) -> BoundCall:
        """The bound call, or the error that explains why there is none."""
        self.options = self.known.check_options(self.options)
        self._fill_from_annotations()
        self._check_missing()
        prepared = {name: self._prepare(name, value) for name, value in self.given.items()}
        try:
            values, types, _ = self.known.binder(**prepared)
        except Exception as error:  # objects of the user's raise anything
            self._explain(prepared, error)
        for number, parameter in enumerate(self.known.parameters):
            if parameter.name in self.types:
                types[number] = self.types[parameter.name]
        values = {name: self._shown_value(name, value) for name, value in values.items()}
        return self.known.bound(values, types, self.options, self.stated, frozenset(self.readonly))

    def _shown_value(self, name: str, value: Any) -> Any:
        if name not in self.types:
            return value
        type_name, hint = self.types[name]
        return hint if type_name == "constexpr" else str(self.given[name])

    # -- whose is which ----------------------------------------------------------------------------

    def _take_positional(self, args: Sequence[Any]) -> None:
        parameters = self.known.parameters
        if len(args) > len(parameters):
            names = ", ".join(self.known.by_name)
            raise self._error(
                f"{self.known.name!r} takes {counted(len(parameters), 'argument')} ({names}), "
                f"got {len(args)}.",
                advice=self._grid_among(args) or "Pass launch options such as num_warps by name.",
            )
        for parameter, value in zip(parameters, args, strict=False):
            self.given[parameter.name] = value

    def _take_keywords(self, keywords: Mapping[str, Any]) -> None:
        for name, value in keywords.items():
            if name not in self.known.by_name:
                self.options.setdefault(name, value)
            elif name in self.given:
                order = ", ".join(self.known.by_name)
                raise self._error(
                    f"{self.known.name!r} got {name!r} twice: by position and by name.",
                    name=name,
                    advice=self._grid_among(self.given.values())
                    or f"Leave one of the two out; its parameters are {order}.",
                )
            else:
                self.given[name] = value

    def _grid_among(self, args: Iterable[Any]) -> str:
        """Return advice if the first argument is the grid, as in `check(kernel, grid, ...)`."""
        first = next(iter(args), None)
        if isinstance(first, tuple) and all(type(size) is int for size in first):
            return (
                f"The first argument, {shown(first)}, looks like a grid. Write grid={shown(first)}."
            )
        return ""

    def _take_constants(self) -> None:
        for name, value in self.constants.items():
            if name not in self.known.by_name:
                raise self._error(
                    f"{self.known.name!r} has no parameter {name!r} to make a constant.",
                    advice=suggestion(name, self.known.by_name, "Parameters:"),
                )
            if name in self.given:
                raise self._error(
                    f"{self.known.name!r} got {name!r} twice: as an argument and as a constant.",
                    name=name,
                )
            self.given[name] = value

    def _fill_from_annotations(self) -> None:
        """Take types from annotations in a call that compiles only: it gives no runtime value."""
        if any(self._is_runtime_value(name, value) for name, value in self.given.items()):
            return
        for parameter in self.known.parameters:
            text = arguments.annotated_type(parameter)
            if text and parameter.name not in self.given and not parameter.has_default:
                self.given[parameter.name] = arguments.StatedType(text, "annotation")

    def _is_runtime_value(self, name: str, value: Any) -> bool:
        if self.known.by_name[name].is_constexpr or name in self.constants:
            return False
        return not isinstance(value, str | arguments.StatedType)

    def _check_missing(self) -> None:
        missing = [
            p for p in self.known.parameters if p.name not in self.given and not p.has_default
        ]
        if not missing:
            return
        names = _listed([repr(parameter.name) for parameter in missing])
        constexprs = [parameter.name for parameter in missing if parameter.is_constexpr]
        advice = []
        if constexprs:
            verb = "is a tl.constexpr" if len(constexprs) == 1 else "are tl.constexpr"
            example = ", ".join(f"{name}=..." for name in constexprs)
            advice.append(f"{_listed(constexprs)} {verb}: give the value by name ({example}).")
        others = [parameter.name for parameter in missing if not parameter.is_constexpr]
        if others:
            advice.append(
                f"For {_listed(others)}, pass a tensor, an array or a number; to compile without "
                'values, pass a type such as "*fp32:16" or "i32".'
            )
        raise MissingArguments(
            f"{self.known.name!r} is missing the argument{'s' * (len(missing) > 1)} {names}.",
            advice=" ".join(advice),
            position=triton_api.parameter_position(self.kernel, missing[0].name),
            constexprs=constexprs,
            others=others,
        )

    # -- values and types --------------------------------------------------------------------------

    def _prepare(self, name: str, value: Any) -> Any:
        """The value for Triton's binder; a stated type is None there, and is put in afterwards."""
        parameter = self.known.by_name[name]
        if name in self.constants:
            self.types[name] = ("constexpr", value)
            return value
        if parameter.is_constexpr:
            if isinstance(value, arguments.StatedType):
                raise self._error(
                    f"{name!r} of {self.known.name!r} is a tl.constexpr, and "
                    f"{value.text!r} is a type.",
                    advice=f"Pass the value to compile in: {name}=...",
                    name=name,
                )
        elif isinstance(value, str):
            value = arguments.StatedType(value)
        if isinstance(value, arguments.StatedType):
            self._state(name, value)
            return None
        try:
            return self._plain_or_readonly(name, value)
        except ArgumentError as error:
            raise self._error(
                f"Argument {name!r} of {self.known.name!r}: {error.problem.removesuffix('.')}.",
                advice=error.advice,
                name=name,
            ) from error

    def _plain_or_readonly(self, name: str, value: Any) -> Any:
        if isinstance(value, numpy.ndarray) and not value.flags.writeable:
            self.readonly.add(name)
            return arguments.tensor_of(value)
        if isinstance(value, tuple):
            return tuple(self._plain_or_readonly(name, item) for item in value)
        return arguments.plain_value(value)

    def _state(self, name: str, stated: arguments.StatedType) -> None:
        try:
            parsed = arguments.parse_type(stated.text)
        except ArgumentError as error:
            raise self._error(
                f"Argument {name!r} of {self.known.name!r}: {error.problem}",
                advice=error.advice,
                name=name,
            ) from error
        declared = self.known.by_name[name].annotation_type
        if declared and parsed[0] not in (declared, "constexpr"):
            raise self._error(
                f"{name!r} of {self.known.name!r} is annotated as {declared!r}, "
                f"got {stated.text!r}.",
                name=name,
            )
        self.given[name] = stated
        self.stated[name] = stated.origin
        self.types[name] = parsed

    # -- errors ------------------------------------------------------------------------------------

    def _explain(self, prepared: Mapping[str, Any], error: Exception) -> None:
        for name, value in prepared.items():
            if self.known.by_name[name].is_constexpr or name in self.types:
                continue
            refused = triton_api.binding_error(value, self.known.target)
            if refused is not None:
                problem, advice = _explain_value(value, refused)
                raise self._error(
                    f"Argument {name!r} of {self.known.name!r} is {problem}",
                    advice=advice,
                    name=name,
                ) from refused
        raise self._error(f"{self.known.name!r} does not take these arguments: {error}") from error

    def _error(self, problem: str, *, advice: str = "", name: str | None = None) -> ArgumentError:
        if name is None:
            position: SourcePosition = triton_api.definition_of(self.kernel)
        else:
            position = triton_api.parameter_position(self.kernel, name)
        return ArgumentError(problem, advice=advice, position=position)


def _explain_value(value: Any, refused: Exception) -> tuple[str, str]:
    """What an argument is, as the words after "is", and what to pass instead."""
    if isinstance(value, list):
        items = counted(list.__len__(value), "item")
        return (
            f"a list of {items}; a kernel takes a tensor or a tuple.",
            (
                "Pass torch.tensor(...) or numpy.array(...) for numbers, or tuple(...) for a "
                "tuple of arguments."
            ),
        )
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return (
                f"a tensor in the layout {str(value.layout).removeprefix('torch.')}, whose "
                "elements are not in one block of memory.",
                "Pass x.to_dense().",
            )
        return (
            f"a tensor of {value.dtype}, a type that Triton does not have.",
            "Convert it with .to(...).",
        )
    if isinstance(value, int):
        return f"{shown(value)}, which does not fit into 64 bits.", "Pass a smaller integer."
    if isinstance(value, complex):
        return f"the complex number {value}; Triton has no complex numbers.", "Pass its parts."
    if isinstance(value, type):
        example = ", such as torch.empty(n)" if issubclass(value, torch.Tensor) else ""
        kind = f"{value.__module__}.{value.__qualname__}".removeprefix("builtins.")
        return f"the class {kind}, not an instance of it.", f"Pass an instance{example}."
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return (
        f"of type {kind}, which cannot be passed to a kernel ({refused}).",
        (
            "Pass a tensor, a NumPy array, a number, None or a tuple of these, or declare the "
            "parameter as tl.constexpr."
        ),
    )


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def bind(
    kernel: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    target: Target,
    *,
    options: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> BoundCall:
    """Bind a call's arguments to the kernel's parameters and specialize it,
    as Triton would for a launch on `target`.

    Args:
        kernel: a Triton or Gluon JIT function.
        args: values or type strings, by position. A value is a torch tensor, a NumPy array (shared,
            not copied), a number, None, a tuple of these, a tensor descriptor, or any value for a
            tl.constexpr parameter.
        keywords: values or type strings by parameter name; other names are options of the
            target's backend.
        target: the GPU to specialize for.
        options: backend options, also those whose name is a kernel parameter's.
        constants: parameter name -> value to compile in, whether or not the kernel declares
            it tl.constexpr.

    Raises:
        ArgumentError: arguments that do not fit the kernel; the message names the parameter and
            the kernel's line.
        OptionError: a keyword does not exist, or the backend refuses an option's value.
    """
    known = known_kernel(kernel, target)
    native = None if options or constants else known.bind_natively(args, keywords)
    if native is None:
        return CarefulBinding(known, args, keywords, options or {}, constants or {}).finish()
    values, types, leftover = native
    if leftover:
        leftover = known.check_options(leftover)
    return known.bound(values, types, leftover)
