"""Arguments of a call: as type strings, as values that Triton's binder takes, and in words."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy
import torch

from kernellab import triton_api
from kernellab.common.text import shown, split_at_commas
from kernellab.errors import ArgumentError, nearest
from kernellab.records import Origin

# Type strings: "*fp16:16" for a pointer to fp16 that is divisible by 16, "i32" for an integer,
# and so on.
#
# They stand in for values that do not exist yet: in `kernellab.compile`, in "--sig", in a
# kernel's annotations.


@dataclass(frozen=True)
class StatedType:
    """A type that stands in for an argument's value."""

    text: str
    """A Triton type string, with an optional promise: "*fp16:16", "i32", "i32:1"."""
    origin: Origin = "signature"

    def __str__(self) -> str:
        return self.text


_TYPE = re.compile(r"(?P<pointer>\*k?|)(?P<name>\w+)(?::(?P<promise>\w+))?")
_DESCRIPTOR = re.compile(r"tensordesc<.+>")


def parse_type(text: str) -> tuple[Any, Any]:
    """A type string as Triton's binder gives it, (type, hint): "*fp16:16" is ("*fp16", "D").

    The promise after the colon: 16 says that the pointer or integer is divisible by 16, 1 that the
    integer is 1 (and is compiled in). Long names ("float16", "*tl.float32") are accepted too.

    Raises:
        ArgumentError: the string is not a Triton type; the message has the nearest type.
    """
    stripped = "".join(text.split()).replace("tl.", "")
    if _DESCRIPTOR.fullmatch(stripped):
        return _descriptor(stripped)
    match = _TYPE.fullmatch(stripped.replace("const*", "*k"))
    name = triton_api.type_spellings().get(match["name"]) if match else None
    if match is None or name is None:
        raise ArgumentError(f"{shown(text)} is not a Triton type.", advice=_type_advice(stripped))
    return _promised(text, match["pointer"] + name, match["promise"])


def _promised(text: str, type_name: str, promise: str | None) -> tuple[Any, Any]:
    """Add what the colon promises, where such a promise can be made."""
    is_pointer = type_name.startswith("*")
    is_integer = type_name[0] in "iu" and type_name != "u1"
    if promise is None:
        # As Triton writes it: "" for an argument that might have had a hint,
        # None for one that cannot.
        return type_name, "" if is_pointer or is_integer else None
    if promise == "16" and (is_pointer or is_integer):
        return type_name, "D"
    if promise == "1" and is_integer:
        return "constexpr", 1
    raise ArgumentError(
        f"{shown(text)} has the suffix ':{promise}', which does not apply to {type_name!r}.",
        advice=(
            '":16" says that a pointer or an integer is divisible by 16, ":1" that an integer is 1.'
        ),
    )


def _descriptor(text: str) -> tuple[Any, Any]:
    try:
        triton_api.triton_type(text)
    except Exception as error:  # Triton's parser raises what its `eval` does
        raise ArgumentError(
            f"{shown(text)} does not name the type and the block shape of a tensor descriptor.",
            advice='"tensordesc<fp16[128,64]>", for example, has the block shape [128, 64].',
        ) from error
    return text, None


def _type_advice(text: str) -> str:
    spellings = {**triton_api.type_spellings(), "f16": "fp16", "f32": "fp32", "f64": "fp64"}
    pointer = "*" if text.startswith("*") else ""
    name = text.lstrip("*").partition(":")[0]
    suggestion = nearest(name, spellings)
    for long, short in spellings.items():
        suggestion = suggestion.replace(repr(long), repr(pointer + short))
    names = ", ".join(sorted(set(spellings.values())))
    return (
        f'{suggestion} Types are {names}; "*" before one makes a pointer, ":16" after it promises '
        'that the pointer or integer is divisible by 16, as in "*fp16:16".'
    ).strip()


def parse_signature(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that a "--sig" string states, for `bind`: by position, and by name.

    Entries are separated by commas: a type ("*fp32:16"), the value of a constexpr ("1024"),
    or either with the parameter's name before it ("n=i32", "BLOCK=1024").

    Raises:
        ArgumentError: an entry that is neither a type nor a value, or is positional after named.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    entries = split_at_commas(text)
    if not entries[-1]:
        entries.pop()
    if "" in entries:
        raise ArgumentError(
            f"The signature {text!r} has an empty entry.", advice="Remove the extra comma."
        )
    for entry in entries:
        name, equals, stated = entry.rpartition("=")
        if equals:
            named[name.strip()] = _stated(stated.strip())
        elif named:
            raise ArgumentError(
                f"{entry!r} comes after named entries in the signature {text!r}.",
                advice="Entries without a name come first.",
            )
        else:
            positional.append(_stated(entry))
    return positional, named


def _stated(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        parse_type(text)
        return StatedType(text)


def annotated_type(parameter: Any) -> str | None:
    """The type string that a parameter's annotation states, or None."""
    if parameter.is_constexpr or not parameter.annotation:
        return None
    try:
        parse_type(parameter.annotation)
    except ArgumentError:
        return None
    return str(parameter.annotation)


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


class NeedsCare(Exception):
    """This argument needs `CarefulBinding`: a type string, or a read-only array."""


def plain_value(value: Any) -> Any:
    """The value as Triton's binder takes it: arrays as tensors, NumPy's scalars as Python's."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, numpy.ndarray):
        if not value.flags.writeable:
            raise NeedsCare
        return tensor_of(value)
    if isinstance(value, numpy.generic):
        return value.item()
    if kind is StatedType:
        raise NeedsCare
    if kind is tuple:
        return tuple(plain_value(item) for item in value)
    return value


def tensor_of(array: numpy.ndarray[Any, Any]) -> torch.Tensor:
    """A torch tensor over the memory of a NumPy array, ml_dtypes' bfloat16 and fp8 included. Raises
    ArgumentError: a masked array, or a dtype, byte order or stride that torch does not have.
    """
    if isinstance(array, numpy.ma.MaskedArray):
        raise ArgumentError(
            "The array is a masked array, but kernels do not see its mask.",
            advice="Pass x.data, its elements without the mask; or x.filled(0), a copy.",
        )
    if not array.dtype.isnative:
        raise ArgumentError(
            f"The array has dtype {array.dtype.str!r}, whose byte order is not this machine's.",
            advice="array.astype(array.dtype.newbyteorder('=')) makes a copy in the native byte "
            "order.",
        )
    if any(stride < 0 for stride in array.strides):
        raise ArgumentError(
            f"The array has negative strides {array.strides}, which a tensor cannot have.",
            advice="Pass array.copy(), which has positive strides.",
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
            f"The array of dtype {array.dtype} cannot become a tensor: {str(error).rstrip('.')}."
        ) from error


def array_of(tensor: torch.Tensor) -> numpy.ndarray[Any, Any]:
    """A NumPy array of a tensor, bfloat16 and fp8 included; shared if contiguous and on the CPU."""
    plain = tensor.detach()
    if plain.device.type != "cpu" or not plain.is_contiguous():
        plain = plain.cpu().contiguous()
    for numpy_type, torch_type in _TORCH_TYPES.items():
        if plain.dtype == torch_type:
            bits: numpy.ndarray[Any, Any] = plain.view(_TORCH_BITS[plain.itemsize]).numpy()
            return bits.view(numpy_type)
    array: numpy.ndarray[Any, Any] = plain.numpy()
    return array


# Arguments of a call in words, without keeping their memory.


def format_argument(value: Any) -> str:
    """An argument in words: "float32[98432]", "1024"."""
    return facts_as_text(facts_of(value))


class FormattedArguments(Mapping[str, str]):
    """The arguments of a call by name, each in words.

    A launch keeps these facts and not the tensors, which would keep their memory; the words are
    made on request.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._facts = {name: facts_of(value) for name, value in values.items()}

    def __getitem__(self, name: str) -> str:
        return facts_as_text(self._facts[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __repr__(self) -> str:
        return repr(dict(self))


NUMBERS = frozenset({bool, int, float})
"""Types of arguments that are kept as they are."""

ArgumentFacts = tuple[torch.dtype, torch.Size] | float | str
"""A tensor's dtype and shape, a number, or of anything else the words."""


def facts_of(value: Any) -> ArgumentFacts:
    """The facts that are kept of an argument, in place of its memory."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape
    if type(value) in NUMBERS:
        return cast("float", value)
    if hasattr(value, "data_ptr"):  # its repr may print all that it points to
        return f"{type(value).__name__} of {getattr(value, 'dtype', 'bytes')}"
    return shown(value)


def facts_as_text(facts: ArgumentFacts) -> str:
    """An argument of which these are kept: "float32[98432]", "1024"."""
    if isinstance(facts, tuple):
        dtype, shape = facts
        return f"{str(dtype).removeprefix('torch.')}{list(shape)}"
    return facts if isinstance(facts, str) else shown(facts)
