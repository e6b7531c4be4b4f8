"""Targets, backends and their options, as Triton has them, on machines with no GPU and no driver;
its binder for any target, and what depends on Triton's version.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import triton
import triton.backends.amd
from packaging.version import Version
from triton import __version__, knobs
from triton._C.libtriton import get_cache_invalidating_env_vars, native_specialize_impl
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, make_backend
from triton.experimental.gluon._runtime import GluonASTSource
from triton.runtime.jit import create_function_from_signature

from kernellab.common.arguments import is_flag, is_whole
from kernellab.common.text import shown
from kernellab.errors import CompileError, OptionError, SourcePosition, nearest
from kernellab.records import Target
from kernellab.triton_api.functions import definition_of

# What depends on Triton's version: how it counts columns in its locations, and lowers scans.

COLUMNS_OF_THE_FILE = Version(__version__) >= Version("3.8")
"""From 3.8 on columns are the file's, from 1. Before, they are those of Python's AST:
from 0, a function's indentation cut off."""

LOCATES_WHOLE_EXPRESSIONS = COLUMNS_OF_THE_FILE
"""From 3.8 on an operation's location is the start of the expression that it computes. Before, it
is the start of what the front end visited last: of `a * b`, the start of `b`."""

FIRST_COLUMN = 1 if COLUMNS_OF_THE_FILE else 0
"""The number of the first column in Triton's locations."""


def column_from_one(column: int) -> int:
    """A location's column, counted from 1."""
    return column - FIRST_COLUMN + 1


def column_in_location(column: int) -> int:
    """The column that a location has, of one counted from 1."""
    return column - 1 + FIRST_COLUMN


CTAS_SHARE_BARRIERS = Version(__version__) >= Version("3.7")
"""A layout of a barrier says which CTAs of a cluster share it. Before 3.7, each CTA has its own."""

CTAS_LOAD_FROM_OTHERS = Version(__version__) >= Version("3.8")
"""Whether a load from shared memory may be from another CTA's; 3.7 refuses to compile it."""

STORE_WAITS_FOR_WRITES = Version(__version__) >= Version("3.8")
"""Whether a wait for TMA stores is also for their writes (PTX: `cp.async.bulk.wait_group`) unless
it has `read_only`. Before 3.8, it is only for their reads (`.read`)."""

TURNS_WARPS_AT_ONCE = Version(__version__) >= Version("3.9")
"""A scan from the end turns a warp's values round:
by one shuffle from 3.9 on, before by one for each bit of the lane."""

# Targets, backends and their options, as Triton has them; on machines with no GPU and no driver.


def gpu_target(target: Target) -> Any:
    """Triton's own description of a target. Lanes per warp:
    32 on NVIDIA and RDNA (gfx10 and later), 64 on CDNA (gfx9).
    """
    if target.backend == "cuda":
        return GPUTarget("cuda", int(target.arch), 32)
    return GPUTarget("hip", target.arch, 64 if target.arch.startswith("gfx9") else 32)


def compute_capability(target: Target) -> tuple[int, int]:
    """(9, 0) for sm_90, and (9, 4) for gfx942: torch counts AMD's in the same way."""
    digits = target.arch.removeprefix("gfx")
    minor_at = len(digits) - (1 if target.backend == "cuda" else 2)
    return int(digits[:minor_at]), int(digits[minor_at], 16)


@functools.cache
def toolkit_version(target: Target) -> str:
    """The version of Triton's part of CUDA (its ptxas), "12.8", or of HIP (its headers), "7.1"."""
    if target.backend == "cuda":
        return str(knobs.nvidia.ptxas.version)
    header = Path(triton.backends.amd.__path__[0], "include", "hip", "hip_version.h").read_text()
    parts = (re.search(rf"HIP_VERSION_{part} +(\d+)", header) for part in ("MAJOR", "MINOR"))
    return ".".join(part[1] for part in parts if part is not None)


@functools.cache
def backend_for(target: Target) -> Any:
    """Triton's backend for a target: needs neither the GPU nor its driver."""
    return make_backend(gpu_target(target))


@functools.cache
def backend_options(target: Target) -> Mapping[str, Any]:
    """Option name -> default, as the target's backend declares them: num_warps, maxnreg, ..."""
    return dict(backend_for(target).parse_options({}).__dict__)


_CHOSEN_BY_TARGET = frozenset({"arch", "backend_name", "warp_size"})


def option_names(target: Target) -> list[str]:
    """The options that a launch may set on this target."""
    return [name for name in backend_options(target) if name not in _CHOSEN_BY_TARGET]


def nvidia_tool(name: str) -> str:
    """Path of one of the NVIDIA tools bundled with Triton: "nvdisasm", "cuobjdump", "ptxas". Raises
    RuntimeError: it is missing, or does not run.
    """
    return str(getattr(knobs.nvidia, name).path)


@functools.cache
def type_spellings() -> Mapping[str, str]:
    """Every name of a scalar type -> its spelling in a signature: "float32" -> "fp32"."""
    from triton._utils import type_canonicalisation_dict

    return {name: short for name, short in type_canonicalisation_dict.items() if short != "void"}


def triton_type(text: str) -> Any:
    """Triton's type object for a type string; raises whatever Triton raises for a string
    that it cannot read, and ValueError for one that Triton would execute.
    """
    from triton.language import str_to_ty

    # Triton evaluates the layout of a descriptor as Python, and the text may be a file's.
    layout = _LAYOUT_OF_DESCRIPTOR.search(text)
    if layout is not None and not _is_layout(layout[1]):
        raise ValueError(f"{layout[1]!r:.80} is not a layout")
    return str_to_ty(text, None)


_LAYOUT_OF_DESCRIPTOR = re.compile(r"tensordesc[^\]]*\],?(.*[^>])>*$", re.DOTALL)
"""What Triton takes for the layout, and more."""

_LAYOUTS = ("NVMMASharedLayout", "PaddedSharedLayout", "SwizzledSharedLayout")


def _is_layout(text: str) -> bool:
    """Whether a text is the call of a layout's class with literal arguments."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    match tree:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _LAYOUTS:
            values = [*args, *(keyword.value for keyword in keywords)]
            return all(isinstance(node, _LITERAL) for each in values for node in ast.walk(each))
    return False


_LITERAL = (ast.Constant, ast.List, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load)


def ast_source_class(kernel: Any) -> Any:
    return GluonASTSource if kernel.is_gluon() else ASTSource


def compiler_key(target: Target) -> str:
    """What else Triton's compiler depends on, as it is part of its cache's key: the versions of
    its tools, and the environment variables that it reads; "" if it is not known.
    """
    said: list[str] = []
    # A tool that is not there is said when it is needed.
    with suppress(Exception):
        said.append(str(backend_for(target).hash()))
    with suppress(Exception):
        said.append(repr(sorted(get_cache_invalidating_env_vars().items())))
    return " ".join(said)


# From the arguments of a call to what Triton specializes on: its own binder, for any target.

Binder = Callable[..., tuple[dict[str, Any], list[Any], dict[str, Any]]]
"""Called like the kernel; gives values by parameter, (type, hint) by parameter,
and the keywords that are not parameters."""


def create_binder(kernel: Any, target: Target) -> Binder:
    """Triton's binder of a kernel, which specializes as a launch on this target would."""
    binder: Binder = create_function_from_signature(
        kernel.signature, kernel.params, backend_for(target)
    )
    return binder


def make_specialization(
    kernel: Any,
    values: Mapping[str, Any],
    types: Sequence[Any],
    target: Target,
) -> tuple[dict[str, Any], dict[Any, Any], dict[Any, Any]]:
    """Signature, constants and attributes, by Triton's own code, from what a binder gave."""
    _, signature, constants, attributes = kernel._pack_args(
        backend_for(target), {}, dict(values), types, {}
    )
    return signature, constants, attributes


def binding_error(value: Any, target: Target) -> Exception | None:
    """None if Triton can pass this value to a kernel, else the exception with which it refuses."""
    try:
        native_specialize_impl(backend_for(target), value, False, True, True)
    except Exception as error:  # Triton calls methods of the user's object
        return error
    return None


# What values a backend's options may have: of the type that the backend declares, and within
# what a GPU has. Triton passes on most of them as they are.


def check_options(options: Mapping[str, Any], target: Target) -> None:
    """Refuse values that mean nothing, then let the backend judge what is left. Raises OptionError:
    a value of another type than the option's, out of its range, or one that the backend refuses, in
    the backend's words.
    """
    kinds = _kinds(target)
    for name, value in options.items():
        if value is None or name not in kinds:
            continue
        wanted = [_KINDS[kind] for kind in kinds[name]]
        if wanted and not any(accepts(value) for accepts, _ in wanted):
            words = " or ".join(what for _, what in wanted)
            raise OptionError(
                f"{name} must be {words}, got {shown(value)}.",
                advice=f"The default of {target} is {name}={shown(backend_options(target)[name])}.",
            )
        _check_range(name, value)
    _check_words(options, target)
    try:
        backend_for(target).parse_options(dict(options))
    except Exception as error:  # each backend asserts and raises differently
        given = ", ".join(f"{name}={shown(value)}" for name, value in options.items())
        raise OptionError(
            f"{target} does not accept {given}: {error}", advice=_power_of_two(options, str(error))
        ) from error


_FROM_FILES: Mapping[type, tuple[str, ...]] = {
    int: (
        *("num_warps", "num_ctas", "num_stages", "maxnreg", "ptx_version", "warp_size"),
        *("waves_per_eu", "matrix_instr_nonkdim", "kpack", "max_num_imprecise_acc_default"),
        *("num_consumer_groups", "num_buffers_warp_spec", "reg_dec_producer", "reg_inc_consumer"),
        *("minRegAutoWS", "maxRegAutoWS"),
    ),
    bool: (
        *("enable_fp_fusion", "enable_reflect_ftz", "allow_flush_denorm", "debug"),
        *("sanitize_overflow", "launch_cooperative_grid", "launch_pdl", "pingpongAutoWS"),
    ),
    str: ("default_dot_input_precision", "schedule_hint"),
    tuple: (
        *("supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes"),
        "allowed_dot_input_precisions",
    ),
}
"""Type of a value -> options that a file may set; others name files, or commands."""

_WORDS = re.compile(r"[A-Za-z0-9_, -]{0,200}")

_OF_PTXAS = re.compile(
    r"(?: *(?:-O[0-3]|-v|-lineinfo|"
    r"(?:--opt-level|--maxrregcount|--register-usage-level|--regAllocOptLevel)[= ]\d{1,3}|"
    r"(?:--fmad|--allow-expensive-optimizations)[= ](?:true|false)|"
    r"(?:--def-load-cache|-dlcm|--def-store-cache|-dscm)[= ]c[agsv]|"
    r"--verbose|--warn-on-spills|--disable-optimizer-constants)(?= |$))* *"
)
"""Options of ptxas that name no file (CUDA Binary Utilities, "Command Option Description")."""


def may_be_of_file(name: str, value: Any) -> bool:
    """Whether a file may set a compiler's option so: it changes the code, and has its type."""
    if value is None:
        return True
    if name == "ptx_options":
        return isinstance(value, str) and bool(_OF_PTXAS.fullmatch(value))
    if name == "instrumentation_mode":
        return bool(value == "")
    for kind, names in _FROM_FILES.items():
        if name in names:
            accepts, _ = _KINDS[kind]
            words = [value] if kind is str else value if kind is tuple else ()
            return accepts(value) and all(_WORDS.fullmatch(str(word)) for word in words)
    return False


def _power_of_two(options: Mapping[str, Any], words: str) -> str:
    """The neighbors of a number that should be a power of two; "" of other complaints."""
    for name, value in options.items():
        if is_whole(value) and value > 1 and f"{name} must be a power of 2" in words:
            below = 1 << (int(value).bit_length() - 1)
            return f"Pass {name}={below} or {name}={2 * below}."
    return ""


_KINDS: Mapping[type, tuple[Callable[[Any], bool], str]] = {
    int: (is_whole, "an integer"),
    bool: (is_flag, "True or False"),
    str: (lambda value: isinstance(value, str), "a string"),
    tuple: (
        lambda value: (
            isinstance(value, tuple | list | set) and all(isinstance(item, str) for item in value)
        ),
        "a tuple of names",
    ),
    dict: (lambda value: _names_files(value), "a dict from names to paths of files that are there"),
}
"""Type of an option -> whether a value is of it, and what it is called."""


def _names_files(value: Any) -> bool:
    """Of a dict, or of its items, which is what backends make of it."""
    try:
        files = dict(value)
    except (TypeError, ValueError):
        return False
    paths = files.values()
    return all(isinstance(path, str | os.PathLike) and os.path.isfile(path) for path in paths)


_RANGES: Mapping[str, tuple[int, int]] = {
    "num_warps": (1, 64),
    "num_ctas": (1, 16),
    "num_stages": (0, 100),
    "maxnreg": (1, 255),
    "waves_per_eu": (0, 32),
}
"""The least and the most that mean something. Warps are at most 32 on a GPU of warps of 32 lanes,
which is said where a kernel is compiled; a cluster has at most 16 CTAs, a thread 255 registers
(CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"). Each stage is a
copy of a loop's loads before the loop, and a buffer for each: 100 are more than any memory holds.
"""


def _check_range(name: str, value: Any) -> None:
    if name not in _RANGES or not is_whole(value):
        return
    least, most = _RANGES[name]
    if not least <= value <= most:
        raise OptionError(
            f"{name} must be an integer from {least} to {most}, got {shown(value)}.",
            advice=f"Remove {name}= to use the default.",
        )
    if name == "num_ctas" and value & (value - 1):  # of num_warps the backend says so itself
        raise OptionError(
            f"{name} must be a power of two, got {value}.", advice="Pass 1, 2, 4, 8 or 16."
        )


def _check_words(options: Mapping[str, Any], target: Target) -> None:
    """Refuse a precision of products that the target has not."""
    name, known = "default_dot_input_precision", options.get("allowed_dot_input_precisions")
    known = known or backend_options(target).get("allowed_dot_input_precisions", ())
    value = options.get(name)
    if value is not None and known and value not in known:
        raise OptionError(
            f"{name}={shown(value)} is not a precision of {target}.",
            advice=f"{nearest(value, known)} There are {', '.join(known)}.".lstrip(),
        )


@functools.cache
def _kinds(target: Target) -> Mapping[str, tuple[type, ...]]:
    """Option -> the types that a value may have: the declared ones, and that of the default."""
    defaults = backend_options(target)
    hints = typing.get_type_hints(type(backend_for(target).parse_options({})))
    values = {}
    for name, hint in hints.items():
        said = typing.get_args(hint) if typing.get_origin(hint) is not tuple else (tuple,)
        declared = {typing.get_origin(type_) or type_ for type_ in said or (hint,)}
        own = type(defaults.get(name))
        is_dict = dict in declared
        kinds = declared if is_dict else declared | {own}
        values[name] = tuple(kind for kind in _KINDS if kind in kinds)
    return values


# Instructions that only some targets have: Triton's passes end the process where another target
# gets one, which a Gluon kernel writes itself.

_INSTRUCTIONS: Mapping[str, tuple[str, range, str]] = {
    r"ttng\.warp_group_dot": ("wgmma", range(9, 10), "sm_90"),
    r"ttng\.(?:tc_gen5|tmem)_": ("tcgen05", range(10, 12), "sm_100 and sm_103"),
    r"ttng\.async_tma_": ("TMA", range(9, 100), "sm_90 and later"),
}
"""Operations of Triton's -> the instruction, the major compute capabilities that have it (PTX ISA,
"Target ISA Notes"), and their targets."""


def check_instructions(module: Any, kernel: Any, target: Target) -> None:
    """Refuse a module of a Gluon kernel that has an instruction which the target does not have.
    Raises CompileError: it has one; the position is the kernel's line.
    """
    if target.backend != "cuda" or not kernel.is_gluon():
        return
    names: list[str] = []
    module.walk(lambda operation: names.append(operation.get_name()))
    for pattern, (instruction, majors, having) in _INSTRUCTIONS.items():
        name = next((name for name in names if re.match(pattern, name)), None)
        if name is None or compute_capability(target)[0] in majors:
            continue
        operation = name.partition(".")[2]
        raise CompileError(
            f"{kernel.__name__!r} cannot be compiled for {target}, which does not have the "
            f"instruction {instruction} ({operation}).",
            advice=f"Compile for a target that has it: {having}.",
            position=_position(str(module), name, kernel),
            kernel=kernel.__name__,
            target=str(target),
        )


def _position(text: str, name: str, kernel: Any) -> SourcePosition:
    """Where a module's text says that an operation comes from, outside of Triton's own files."""
    locations = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.MULTILINE))
    line = next((line for line in text.splitlines() if re.search(rf"{name}\b", line)), "")
    library = str(Path(str(triton.__file__)).parent)
    return next(
        (place for place in _places(line, locations) if not place.file.startswith(library)),
        definition_of(kernel),
    )


def _places(location: str, locations: Mapping[str, str]) -> Iterator[SourcePosition]:
    """The places that a location names, the innermost call first."""
    for file, line, column, alias in _PLACE.findall(location):
        if alias:
            yield from _places(locations.get(alias, ""), locations)
        else:
            yield SourcePosition(file, int(line), int(column))


_PLACE = re.compile(r'"([^"]+)":(\d+):(\d+)|(#loc\d*)')
