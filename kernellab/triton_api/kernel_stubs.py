"""Kernels whose modules were made in another process: Triton's front end, which runs the Python of
a kernel while it compiles, does not run here.

`facts_of` describes a kernel in types that JSON has, `given_kernel` makes an object of the
description that everything here takes for a kernel, and `give_module` adds what the front end made
of it for one specialization.
"""

from __future__ import annotations

import hashlib
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from triton.experimental.gluon._runtime import GluonJITFunction
from triton.runtime.jit import JITFunction

from kernellab.common.saved_files import (
    MOST_LINES,
    SavedData,
    SavedValue,
    value_of,
    value_to_json,
)
from kernellab.errors import KernelLabError, show_no_other_lines
from kernellab.records import Specialization
from kernellab.triton_api.debug_info import (
    Constant,
    DebugRecord,
    DebugRecords,
    Group,
    Held,
    Operand,
    SourceFunction,
    current_records,
)
from kernellab.triton_api.functions import is_of_library, reachable_functions
from kernellab.triton_api.kernel_contents import source_lines_are
from kernellab.triton_api.stages import parsed_module

MODULES = "_kernellab_given_modules"
"""Kept on a given kernel: its modules by specialization."""

_LONGEST_WORDS = 200
"""The most characters that stand for a constant that JSON does not know."""


@dataclass(frozen=True)
class GivenModule:
    """The front end's result for a kernel and one specialization.

    Attributes:
        text: the module in MLIR's generic form, as the front end left it.
        debug_text: the same with debug records; "" if there are none.
        records: what the debug records say.
    """

    text: str
    debug_text: str = ""
    records: DebugRecords = ()


def facts_of(kernel: Any) -> list[dict[str, Any]]:
    """Describe a kernel and the functions of the user that it may call, the kernel first."""
    return [
        _facts(function) for function in reachable_functions(kernel) if not is_of_library(function)
    ]


def _facts(function: Any) -> dict[str, Any]:
    return {
        "name": str(function.fn.__name__),
        "file": str(function.fn.__code__.co_filename),
        "first_line": int(function.starting_line_number),
        "lines": [str(line) for line in function.raw_src],
        "source": str(function.src),
        "is_gluon": isinstance(function, GluonJITFunction),
        "parameters": [
            {
                "name": str(parameter.name),
                "annotation": str(parameter.annotation),
                "unspecialized": bool(parameter.do_not_specialize),
                "unaligned": bool(parameter.do_not_specialize_on_alignment),
            }
            for parameter in getattr(function, "params", ())
        ],
    }


def records_as_json(records: DebugRecords) -> list[dict[str, Any]]:
    """Describe debug records in types that JSON has."""
    return [
        {
            "kind": record.kind,
            "line": record.line,
            "names": {name: _held_as_json(value) for name, value in record.names.items()},
            "is_static": record.is_static,
            "is_breakpoint": record.is_breakpoint,
            "function": _source_as_json(record.function),
        }
        for record in records
    ]


def _source_as_json(function: SourceFunction | None) -> dict[str, Any] | None:
    if function is None:
        return None
    return {name: getattr(function, name) for name in ("text", "name", "file", "line")}


def _held_as_json(value: Held) -> dict[str, Any]:
    match value:
        case Operand(number, is_unsigned, is_barrier):
            return {"operand": number, "is_unsigned": is_unsigned, "is_barrier": is_barrier}
        case Group(type_name, parts):
            held = {name: _held_as_json(part) for name, part in parts.items()}
            return {"group": type_name, "parts": held}
    constant = value.value
    if constant is None or isinstance(constant, str | bool | int | float):
        return {"constant": value_to_json(constant)}
    return {"words": repr(constant)[:_LONGEST_WORDS]}


def given_kernel(facts: Sequence[Mapping[str, Any]]) -> Any:
    """Return a kernel that compiles as the described one, from the modules that it is given.

    Its Python function has the parameters and the lines of the described one, and does nothing.

    Raises:
        KeyError, TypeError, ValueError: the description is not one that `facts_of` wrote.
    """
    kernel, *helpers = (_function(each) for each in facts)
    scope = kernel.fn.__globals__
    for number, helper in enumerate(helpers):
        scope.setdefault(helper.__name__, helper)
        scope[f"helper_{number}"] = helper
    named = tuple(f"helper_{number}" for number in range(len(helpers)))
    kernel.fn.__code__ = kernel.fn.__code__.replace(co_names=named)
    vars(kernel)[MODULES] = {}
    return kernel


class _Given(JITFunction):  # type: ignore[misc]  # Triton has no types
    """A kernel whose modules are given."""

    @property
    def cache_key(self) -> str:
        """The key of Triton's cache; the modules, not the source, are what is compiled."""
        modules = repr(sorted(vars(self).get(MODULES, {}).items(), key=lambda item: item[0]))
        return hashlib.sha256(f"{self.src}\n{modules}".encode()).hexdigest()


class _GivenGluon(_Given, GluonJITFunction):  # type: ignore[misc]
    """A Gluon kernel whose modules are given."""


def _function(facts: Mapping[str, Any]) -> Any:
    parameters = facts["parameters"]
    names = [_identifier(parameter["name"]) for parameter in parameters]
    # Python compiles nothing here that another process sent but identifiers.
    text = f"def {_identifier(facts['name'])}({', '.join(names)}):\n    pass\n"
    scope: dict[str, Any] = {"__name__": "__main__"}
    file, lines = str(facts["file"]), [str(line) for line in facts["lines"]]
    first_line = _line(facts["first_line"])
    _line(first_line + len(lines))
    show_no_other_lines(file)
    exec(compile(text, file, "exec"), scope)  # noqa: S102 - made of identifiers
    function: FunctionType = scope.pop(facts["name"])
    function.__code__ = function.__code__.replace(co_firstlineno=first_line)
    function.__annotations__ = {
        name: str(parameter["annotation"])
        for name, parameter in zip(names, parameters)
        if parameter["annotation"]
    }
    with source_lines_are(file, first_line, lines):
        made = (_GivenGluon if facts["is_gluon"] else _Given)(
            function,
            do_not_specialize=[p["name"] for p in parameters if p["unspecialized"]],
            do_not_specialize_on_alignment=[p["name"] for p in parameters if p["unaligned"]],
        )
    made.raw_src, made.starting_line_number = lines, first_line
    made._src = str(facts["source"])
    return made


def _line(number: Any) -> int:
    if type(number) is not int or not 0 <= number <= MOST_LINES:
        raise ValueError(f"{number!r:.40} is not the number of a line")
    return number


def _identifier(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is not a name of Python's")
    return name


def records_from_json(data: Sequence[Mapping[str, Any]], kernel: Any) -> DebugRecords:
    """Return records from `records_as_json`. Raises KeyError, TypeError, ValueError: others."""
    functions = {(f.fn.__name__, str(f.src)): f for f in reachable_functions(kernel)}
    return tuple(
        DebugRecord(
            each["kind"],
            _line(each["line"]),
            {str(name): _held_from_json(value) for name, value in each["names"].items()},
            bool(each["is_static"]),
            bool(each["is_breakpoint"]),
            _source_from_json(each["function"], functions, kernel),
        )
        for each in data
    )


def _source_from_json(
    data: Mapping[str, Any] | None, functions: Mapping[tuple[str, str], Any], kernel: Any
) -> SourceFunction | None:
    if data is None:
        return None
    name, text = str(data["name"]), str(data["text"])
    # A function of Triton's own library has no scope that matters here.
    function = functions.get((name, text), kernel)
    return SourceFunction(lambda: function, text, name, str(data["file"]), _line(data["line"]))


def _held_from_json(data: Mapping[str, Any]) -> Held:
    if "operand" in data:
        return Operand(int(data["operand"]), bool(data["is_unsigned"]), bool(data["is_barrier"]))
    if "group" in data:
        parts = {str(name): _held_from_json(part) for name, part in data["parts"].items()}
        return Group(str(data["group"]), parts)
    if "words" in data:
        return Constant(SavedValue(str(data["words"])))
    return Constant(value_of(SavedData(data["constant"])))


def give_module(
    kernel: Any, specialization: Specialization, module: GivenModule | KernelLabError
) -> None:
    """Have a given kernel compile as this module for a specialization, or fail with the error."""
    key = _key(specialization.signature, specialization.constants, specialization.attributes)
    vars(kernel)[MODULES][key] = module


def given_texts(kernel: Any) -> list[str]:
    """Return the texts of the modules of a given kernel, each once."""
    modules = vars(kernel)[MODULES].values()
    return list(dict.fromkeys(m.text for m in modules if isinstance(m, GivenModule)))


def is_given(kernel: Any) -> bool:
    """Return whether a kernel's modules are given."""
    return MODULES in vars(kernel)


def read_given_module(kernel: Any, source: Any, context: Any) -> Any:
    """Return the module of a given kernel for an `ASTSource`, in a context of MLIR; with its debug
    records, if this thread records them. Raises KernelLabError: the front end refused the
    kernel, or there is no module for the source.
    """
    given = vars(kernel)[MODULES].get(_key(source.signature, source.constants, source.attrs))
    if given is None:
        raise KernelLabError(
            f"{kernel.__name__!r} was not compiled for arguments of these types.",
            advice="Launch it with the types for which it was compiled.",
        )
    if isinstance(given, KernelLabError):
        raise given
    records = current_records()
    if records is None:
        return parsed_module(given.text, context)
    if not given.debug_text:
        raise KernelLabError(f"No debug records of {kernel.__name__!r} were made.")
    records[:] = given.records
    return parsed_module(given.debug_text, context)


def _key(*parts: Mapping[Any, Any]) -> str:
    return repr([sorted(part.items()) for part in parts])


def entry_fits(text: str, specialization: Specialization) -> bool:
    """Return whether a module has one function that a launch calls, which takes the runtime
    arguments of a specialization and assumes no more of them than it states.

    Args:
        text: the module in MLIR's generic form, as MLIR printed it.
    """
    entries = [match for match in _FUNCTION.finditer(text) if match["visibility"] == "public"]
    if len(entries) != 1:
        return False
    types, promises = _stated(specialization)
    if _TENSOR_TYPE.sub(r"tensordesc<\1>", entries[0]["types"]) != ", ".join(types):
        return False
    assumed = _ATTRIBUTES.findall(entries[0]["attributes"] or "")
    return all(_is_stated(each, stated) for each, stated in zip(assumed, promises, strict=False))


_FUNCTION = re.compile(
    r'^  "tt\.func"\(\) <\{(?:arg_attrs = \[(?P<attributes>[^\]]*)\], )?'
    r"function_type = \((?P<types>[^()]*)\) -> [^\n]*?"
    r'sym_visibility = "(?P<visibility>\w+)"\}>',
    re.MULTILINE,
)
_ATTRIBUTES = re.compile(r"\{([^{}]*)\}")
_PROMISE = re.compile(r"(tt\.\w+) = (\d+) : i32")
_DESCRIPTOR = re.compile(r"tensordesc<(\w+)\[([\d, ]+)\](?:,.*)?>")
_TENSOR_TYPE = re.compile(r"tensordesc<(?:tensor<)?([^<>,]*)(?:, #\w+)?>>?")
"""Of a descriptor, which Gluon gives a layout; `tensor` is spelled out before Triton 3.8."""


def _stated(specialization: Specialization) -> tuple[list[str], list[dict[str, int]]]:
    """Return the MLIR types of the runtime arguments, and what is stated of each by name."""
    types, promises = [], []
    for path, kind in _flat(tuple(specialization.signature.values())):
        if kind == "constexpr":
            continue
        if descriptor := _DESCRIPTOR.fullmatch(kind):
            sizes = descriptor[2].split(", ")
            tensor = "x".join([*sizes, _scalar(descriptor[1])])
            parts = [f"!tt.tensordesc<{tensor}>", *["i32"] * len(sizes), *["i64"] * len(sizes)]
        else:
            parts = [f"!tt.ptr<{_scalar(kind[1:])}>" if kind.startswith("*") else _scalar(kind)]
        types += parts
        stated = specialization.attributes.get(path, ())
        promises += [{str(name): int(value) for name, value in stated}] * len(parts)
    return types, promises


def _flat(kinds: tuple[Any, ...], path: tuple[int, ...] = ()) -> Iterator[tuple[Any, str]]:
    """Yield the types of a signature with their paths, those in tuples too."""
    for number, kind in enumerate(kinds):
        own = (*path, number)
        yield from _flat(kind, own) if isinstance(kind, tuple) else [(own, kind)]


def _scalar(kind: str) -> str:
    """Return MLIR's name of a type: "i32" for "u32", "f16" for "fp16"."""
    if kind.startswith("u"):
        return f"i{kind[1:]}"
    return f"f{kind[2:]}" if kind.startswith("fp") and kind[2:].isdigit() else kind


def _is_stated(attributes: str, stated: Mapping[str, int]) -> bool:
    """Return whether an argument's attributes, divisibility and AMD's range, are stated."""
    for attribute in filter(None, map(str.strip, attributes.split(","))):
        assumed = _PROMISE.fullmatch(attribute)
        if assumed is None:
            return False
        known, value = stated.get(assumed[1], 1), int(assumed[2])
        is_divisor = assumed[1] == "tt.divisibility" and value > 0 and known % value == 0
        if known != value and not is_divisor:
            return False
    return True
