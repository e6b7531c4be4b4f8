"""Binding by name, with type strings, annotations and every error explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import torch

from kernellab import triton_api
from kernellab.common.text import counted, shown
from kernellab.compiler.specialization.argument_values import plain_value, tensor_of
from kernellab.compiler.specialization.known_kernels import BoundCall, KnownKernel
from kernellab.compiler.specialization.type_strings import StatedType, annotated_type, parse_type
from kernellab.errors import ArgumentError, MissingArguments, SourcePosition, suggestion
from kernellab.records import Origin


class CarefulBinding:
    """Binds one call by name; slower than Triton's binder, and able to say what is wrong."""

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
        except Exception as error:
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
                f"{self.known.name!r} takes {counted(len(parameters), 'argument')} ({names}), and "
                f"{len(args)} were given.",
                advice="Launch options such as num_warps go by name.",
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
                    advice=f"Leave one of the two out; its parameters are {order}.",
                )
            else:
                self.given[name] = value

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
            text = annotated_type(parameter)
            if text and parameter.name not in self.given and not parameter.has_default:
                self.given[parameter.name] = StatedType(text, "annotation")

    def _is_runtime_value(self, name: str, value: Any) -> bool:
        if self.known.by_name[name].is_constexpr or name in self.constants:
            return False
        return not isinstance(value, str | StatedType)

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
        if len(constexprs) < len(missing):
            advice.append(
                "Give a tensor, an array or a number; to compile without values, a type such as "
                '"*fp32:16" or "i32".'
            )
        raise MissingArguments(
            f"{self.known.name!r} was not given {names}.",
            advice=" ".join(advice),
            position=triton_api.parameter_position(self.kernel, missing[0].name),
            constexprs=constexprs,
            others=[parameter.name for parameter in missing if not parameter.is_constexpr],
        )

    # -- values and types --------------------------------------------------------------------------

    def _prepare(self, name: str, value: Any) -> Any:
        """The value for Triton's binder; a stated type becomes None there,
        and its type is put in afterwards.
        """
        parameter = self.known.by_name[name]
        if name in self.constants:
            self.types[name] = ("constexpr", value)
            return value
        if parameter.is_constexpr:
            if isinstance(value, StatedType):
                raise self._error(
                    f"{name!r} of {self.known.name!r} is a tl.constexpr, and "
                    f"{value.text!r} is a type.",
                    advice=f"Give the value to compile in: {name}=...",
                    name=name,
                )
        elif isinstance(value, str):
            value = StatedType(value)
        if isinstance(value, StatedType):
            self._state(name, value)
            return None
        try:
            return self._plain_or_readonly(name, value)
        except ArgumentError as error:
            raise self._error(
                f"Argument {name!r} of {self.known.name!r}: {error.problem}.",
                advice=error.advice,
                name=name,
            ) from error

    def _plain_or_readonly(self, name: str, value: Any) -> Any:
        if isinstance(value, numpy.ndarray) and not value.flags.writeable:
            self.readonly.add(name)
            return tensor_of(value)
        if isinstance(value, tuple):
            return tuple(self._plain_or_readonly(name, item) for item in value)
        return plain_value(value)

    def _state(self, name: str, stated: StatedType) -> None:
        try:
            parsed = parse_type(stated.text)
        except ArgumentError as error:
            raise self._error(
                f"Argument {name!r} of {self.known.name!r}: {error.problem}",
                advice=error.advice,
                name=name,
            ) from error
        declared = self.known.by_name[name].annotation_type
        if declared and parsed[0] not in (declared, "constexpr"):
            raise self._error(
                f"{name!r} of {self.known.name!r} is annotated as {declared!r}, and "
                f"{stated.text!r} was given.",
                name=name,
            )
        self.given[name] = stated
        self.stated[name] = stated.origin
        self.types[name] = parsed

    # -- errors ------------------------------------------------------------------------------------

    def _explain(self, prepared: Mapping[str, Any], error: Exception) -> None:
        """Raise for the argument that Triton cannot pass to a kernel."""
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
    """What an argument is, as it goes on from "is", and what to give instead."""
    if isinstance(value, list):
        items = counted(list.__len__(value), "item")
        return (
            f"a list of {items}; a kernel takes a tensor there, or a tuple.",
            (
                "torch.tensor(...) or numpy.array(...) makes a tensor of numbers, tuple(...) a "
                "tuple of arguments."
            ),
        )
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return (
                f"a tensor in the layout {str(value.layout).removeprefix('torch.')}, which has no "
                "one block of memory.",
                "Pass x.to_dense().",
            )
        return (
            f"a tensor of {value.dtype}, a type that Triton does not have.",
            "Convert it with .to(...).",
        )
    if isinstance(value, int):
        return f"{shown(value)}, which does not fit into 64 bits.", ""
    if isinstance(value, complex):
        return f"the complex number {value}; Triton has no complex numbers.", "Pass its parts."
    if isinstance(value, type):
        return f"the class {value.__qualname__}.", "Pass an object of it."
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return (
        f"of type {kind}, which cannot be passed to a kernel ({refused}).",
        (
            "Tensors, NumPy arrays, numbers, None and tuples of them can; anything else must be a "
            "tl.constexpr parameter."
        ),
    )


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
