"""How the arguments of a call become a `Specialization`.

Real values go through Triton's own binder, so that the signature, constants and attributes are
those of a launch on the GPU. Type strings ("*fp16:16", "i32") stand for values that are not there
yet, and may be mixed with values.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy
import torch

from kernellab import triton_api
from kernellab.common.formatting import counted
from kernellab.compiler.specialization.parameter_roles import Role, parameter_roles
from kernellab.compiler.specialization.type_strings import (
    StatedType,
    annotated_type,
    parse_signature,
    parse_type,
)
from kernellab.errors import (
    ArgumentError,
    MissingArguments,
    OptionError,
    SourcePosition,
    nearest,
    suggestion,
)
from kernellab.records import Origin, Specialization, Target

__all__ = [
    "BoundCall",
    "StatedType",
    "assume",
    "bind",
    "parse_signature",
    "parse_type",
    "tensor_of",
]


@dataclass(frozen=True)
class BoundCall:
    """One call of a kernel, bound to its parameters and specialised for a target."""

    specialization: Specialization
    values: Mapping[str, Any]
    """Every parameter by name, defaults applied. NumPy arrays have become torch tensors
    that share their memory; a parameter of which only the type is known has its type string."""
    options: Mapping[str, Any]
    """Keywords that are no kernel parameters: num_warps, num_stages, ..."""
    key: Hashable = None
    """Equal keys of one kernel and target mean equal specialisations;
    None where some constant cannot be hashed."""
    stated: frozenset[str] = frozenset()
    """Parameters of which only the type is known: such a call can be compiled, not run."""
    readonly: frozenset[str] = frozenset()
    """Parameters whose NumPy array is read-only: the kernel must not store there."""


def bind(
    kernel: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    target: Target,
    *,
    options: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> BoundCall:
    """Bind a call's arguments to the kernel's parameters and specialise it,
    as Triton would for a launch on `target`.

    Args:
        kernel: a Triton or Gluon JIT function.
        args: values or type strings, by position. A value is a torch tensor, a NumPy array (shared,
            not copied), a number, None, a tuple of these, a tensor descriptor, or whatever a
            tl.constexpr parameter takes.
        keywords: values or type strings by parameter name; other names are options of the
            target's backend.
        target: the GPU to specialise for.
        options: backend options, also those whose name is a kernel parameter's.
        constants: parameter name -> value to compile in, whether or not the kernel declares
            it tl.constexpr.

    Raises:
        ArgumentError: arguments that do not fit the kernel; the message names the parameter and
            the kernel's line.
        OptionError: a keyword that nobody takes, or an option value that the backend refuses.
    """
    known = _known_kernel(kernel, target)
    native = None if options or constants else known.bind_natively(args, keywords)
    if native is None:
        return _CarefulBinding(known, args, keywords, options or {}, constants or {}).finish()
    values, types, leftover = native
    if leftover:
        known.check_options(leftover)
    return known.bound(values, types, leftover)


_ASSUMED: dict[Role, str] = {"pointer": "*fp32:16", "integer": "i32", "float": "fp32"}


def assume(kernel: Any, given: Collection[str] = ()) -> dict[str, StatedType]:
    """Types for the parameters that nobody has said anything about,
    to be shown as what they are: an assumption.

    An annotation goes first. Else a parameter that the kernel loads from or stores to is
    "*fp32:16", one that takes part in addresses, masks and loops is "i32", and any other is "fp32".
    A tl.constexpr is never guessed.

    Args:
        kernel: a Triton or Gluon JIT function.
        given: names of the parameters whose value or type is known.

    Returns:
        Parameter name -> its type, with "annotation" or "assumption" as its origin;
        to be given to `bind` by name.

    Raises:
        ArgumentError: a parameter is a tensor descriptor, whose block shape cannot be guessed.
    """
    roles = parameter_roles(kernel)
    types: dict[str, StatedType] = {}
    for parameter in kernel.params:
        if parameter.name in given or parameter.is_constexpr or parameter.has_default:
            continue
        if (annotated := annotated_type(parameter)) is not None:
            types[parameter.name] = StatedType(annotated, "annotation")
            continue
        role = roles[parameter.name]
        if role == "descriptor":
            raise ArgumentError(
                f"{parameter.name!r} of {kernel.__name__!r} is used as a tensor descriptor, and "
                "its block shape is not known.",
                advice=(
                    f'Say it: {parameter.name}="tensordesc<fp16[128,64]>", with the type and '
                    "shape that you "
                    "use."
                ),
                position=triton_api.parameter_position(kernel, parameter.name),
            )
        types[parameter.name] = StatedType(_ASSUMED[role], "assumption")
    return types


# --------------------------------------------------------------------------------------------------
# What is remembered of a kernel, so that a warm call is cheap
# --------------------------------------------------------------------------------------------------

_LARGEST_MEMORY = 1024
"""Specialisations remembered per kernel and target;
a kernel called with ever new constants starts over after that."""


class _KnownKernel:
    """One kernel on one target: Triton's binder for it, and the specialisations that it has had."""

    def __init__(self, kernel: Any, target: Target) -> None:
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
                *[_plain(value) for value in args],
                **{name: _plain(value) for name, value in keywords.items()},
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

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise OptionError for an option that the backend does not have,
        or a value that it refuses.
        """
        text = repr(options)
        if text in self._accepted_options:
            return
        known = triton_api.option_names(self.target)
        for name in options:
            if name not in known:
                self._refuse_option(name, known)
        triton_api.check_options(options, self.target)
        if len(self._accepted_options) >= _LARGEST_MEMORY:
            self._accepted_options.clear()
        self._accepted_options.add(text)

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

_known_kernels: dict[tuple[int, Target], _KnownKernel] = {}


def _known_kernel(kernel: Any, target: Target) -> _KnownKernel:
    # By identity: hashing a JIT function reads the source of everything it calls.
    key = (id(kernel), target)
    known = _known_kernels.get(key)
    if known is None:
        known = _known_kernels[key] = _KnownKernel(kernel, target)
        weakref.finalize(kernel, _known_kernels.pop, key, None)
    return known


def _exact(value: Any) -> object:
    """What tells apart constants that compare equal and compile differently:
    1, True and 1.0; 0.0 and -0.0.
    """
    kind = type(value)
    if isinstance(value, tuple):
        return (kind, *[_exact(item) for item in value])
    return (kind, repr(value)) if isinstance(value, float) else kind


# --------------------------------------------------------------------------------------------------
# NumPy
# --------------------------------------------------------------------------------------------------

_TORCH_TYPES = {
    numpy.dtype(ml_dtypes.bfloat16): torch.bfloat16,
    numpy.dtype(ml_dtypes.float8_e4m3fn): torch.float8_e4m3fn,
    numpy.dtype(ml_dtypes.float8_e4m3fnuz): torch.float8_e4m3fnuz,
    numpy.dtype(ml_dtypes.float8_e5m2): torch.float8_e5m2,
    numpy.dtype(ml_dtypes.float8_e5m2fnuz): torch.float8_e5m2fnuz,
}
"""Types that NumPy has through ml_dtypes and torch has itself."""

_BITS = {1: numpy.dtype(numpy.uint8), 2: numpy.dtype(numpy.int16)}
_TORCH_BITS = {1: torch.uint8, 2: torch.int16}

_PLAIN = frozenset({torch.Tensor, int, float, bool, type(None)})


class _NeedsCare(Exception):
    """This argument takes the careful way: a type string, or an array that is read-only."""


def _plain(value: Any) -> Any:
    """The value as Triton's binder takes it: arrays as tensors, NumPy's scalars as Python's."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, numpy.ndarray):
        if not value.flags.writeable:
            raise _NeedsCare
        return tensor_of(value)
    if isinstance(value, numpy.generic):
        return value.item()
    if kind is StatedType:
        raise _NeedsCare
    if kind is tuple:
        return tuple(_plain(item) for item in value)
    return value


def described(value: Any) -> str:
    """An argument in words: "float32[98432]", "1024"."""
    return _format_facts(_facts(value))


class ArgumentWords(Mapping[str, str]):
    """The arguments of a call by name, each in words.

    A launch notes what the words say, and not the tensors, which would keep their memory;
    the words are made when somebody reads them.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._facts = {name: _facts(value) for name, value in values.items()}

    def __getitem__(self, name: str) -> str:
        return _format_facts(self._facts[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __repr__(self) -> str:
        return repr(dict(self))


_Facts = tuple[torch.dtype, torch.Size] | str
"""What the words for an argument need of it: dtype and shape of a tensor,
of anything else the words."""


def _facts(value: Any) -> _Facts:
    return (value.dtype, value.shape) if isinstance(value, torch.Tensor) else repr(value)


def _format_facts(facts: _Facts) -> str:
    if isinstance(facts, str):
        return facts
    dtype, shape = facts
    return f"{str(dtype).removeprefix('torch.')}{list(shape)}"


def tensor_of(array: numpy.ndarray[Any, Any]) -> torch.Tensor:
    """A torch tensor over the memory of a NumPy array, ml_dtypes' bfloat16 and fp8 included.

    Raises:
        ArgumentError: a dtype that no GPU has, a foreign byte order, or strides that
            torch cannot express.
    """
    if not array.dtype.isnative:
        raise ArgumentError(
            f"the array has dtype {array.dtype.str!r}, in the other byte order than this machine's",
            advice="array.astype(array.dtype.newbyteorder('=')) makes a copy in the native order.",
        )
    if any(stride < 0 for stride in array.strides):
        raise ArgumentError(
            f"the array has negative strides {array.strides}, which a tensor cannot have",
            advice="array.copy() makes one that runs forwards.",
        )
    torch_type = _TORCH_TYPES.get(array.dtype)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable.*")
            if torch_type is None:
                return torch.from_numpy(array)
            return torch.from_numpy(array.view(_BITS[array.dtype.itemsize])).view(torch_type)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"the array of dtype {array.dtype} cannot become a tensor: {str(error).rstrip('.')}"
        ) from error


def array_of(tensor: torch.Tensor) -> numpy.ndarray[Any, Any]:
    """A NumPy array of a tensor's elements, bfloat16 and fp8 included:
    over the same memory where the tensor is contiguous and on the CPU, else of a copy.
    """
    plain = tensor.detach()
    if plain.device.type != "cpu" or not plain.is_contiguous():
        plain = plain.cpu().contiguous()
    for numpy_type, torch_type in _TORCH_TYPES.items():
        if plain.dtype == torch_type:
            bits: numpy.ndarray[Any, Any] = plain.view(_TORCH_BITS[plain.itemsize]).numpy()
            return bits.view(numpy_type)
    found: numpy.ndarray[Any, Any] = plain.numpy()
    return found


# --------------------------------------------------------------------------------------------------
# The careful way: by name, with type strings, annotations and every error explained
# --------------------------------------------------------------------------------------------------


class _CarefulBinding:
    """Binds one call by name; slower than Triton's binder, and able to say what is wrong."""

    def __init__(
        self,
        known: _KnownKernel,
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
        self.known.check_options(self.options)
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
                raise self._error(
                    f"{self.known.name!r} got {name!r} twice: by position and by name.", name=name
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
        """Where no runtime value is given at all, this is no launch:
        annotations may say the types.
        """
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
            others=[one.name for one in missing if not one.is_constexpr],
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
            return _plain(value)
        if isinstance(value, str):
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
        return _plain(value)

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
        return (
            f"a list of {counted(len(value), 'item')}; a kernel takes a tensor there, or a tuple.",
            (
                "torch.tensor(...) or numpy.array(...) makes a tensor of numbers, tuple(...) a "
                "tuple of arguments."
            ),
        )
    if isinstance(value, torch.Tensor):
        return (
            f"a tensor of {value.dtype}, a type that Triton does not have.",
            "Convert it with .to(...).",
        )
    if isinstance(value, int):
        return f"{value}, which does not fit into 64 bits.", ""
    if isinstance(value, complex):
        return f"the complex number {value}; Triton has no complex numbers.", "Pass its parts."
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
