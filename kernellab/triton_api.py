"""Triton's private names, in one place.

Everything here reaches behind Triton's public door: the binder that turns call arguments into a specialisation, the
backends and their options, the front end, the errors. The rest of KernelLab imports from this file, so that a new
version of Triton is a change of one file. Runs on Triton 3.6 to 3.8, on machines with no GPU and no driver.
"""

from __future__ import annotations

import ast
import fcntl
import functools
import hashlib
import importlib.util
import io
import os
import re
import stat
import sys
import tempfile
import threading
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from kernellab.errors import CompileError, KernelLabError, OptionError, SourcePosition
from kernellab.records import Specialization, Target


def _require_triton() -> None:
    """Say kindly why KernelLab cannot start here, before Triton's own import fails obscurely."""
    if sys.platform != "linux":
        raise ImportError(
            f"KernelLab needs Linux, and this is {sys.platform!r}: it drives the Triton compiler, whose wheels exist "
            "for Linux only. On Windows use WSL; on a Mac use a Linux container (amd64 or arm64); anywhere, use Google "
            "Colab. No GPU is needed. The README has the commands."
        )
    if importlib.util.find_spec("triton") is None:
        raise ImportError(
            "KernelLab needs the Triton compiler, and this Python has none. Install it beside a matching torch: "
            "pip install torch==2.13.0 triton==3.7.1. No GPU is needed."
        )


_require_triton()

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton import knobs  # noqa: E402
from triton._C import libtriton  # noqa: E402
from triton._C.libtriton import native_specialize_impl  # noqa: E402
from triton.backends.compiler import GPUTarget, Language  # noqa: E402
from triton.compiler.compiler import ASTSource, make_backend  # noqa: E402
from triton.compiler.errors import CompilationError  # noqa: E402
from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction  # noqa: E402
from triton.runtime.autotuner import Autotuner, Config, Heuristics  # noqa: E402
from triton.runtime.errors import OutOfResources, PTXASError  # noqa: E402
from triton.runtime.jit import (  # noqa: E402
    JITCallable,
    JITFunction,
    create_function_from_signature,
)

__all__ = [
    "LEFT_TO_TRITON",
    "Autotuner",
    "Binder",
    "CompiledKernel",
    "Config",
    "GluonJITFunction",
    "Heuristics",
    "JITCallable",
    "JITFunction",
    "OutOfResources",
    "backend_options",
    "check_options",
    "compile_kernel",
    "create_binder",
    "current_gpu",
    "definition_of",
    "generic_form",
    "generic_text",
    "kernels_become",
    "make_ttir",
    "nvidia_tool",
    "offer_autotuned_launches",
    "parse_mlir",
    "stage_names",
    "type_spellings",
]


def _refuse_interpreter_mode() -> None:
    """With TRITON_INTERPRET=1 Triton replaces its own library by Python functions, which no compiler can read."""
    if knobs.runtime.interpret or not isinstance(tl.sum, JITFunction):
        raise ImportError(
            "TRITON_INTERPRET=1 is set, so Triton has replaced its compiler by its own interpreter. KernelLab brings an "
            "interpreter of its own and needs the compiler: unset TRITON_INTERPRET and restart Python (or the notebook's kernel)."
        )


_refuse_interpreter_mode()


# ---------------------------------------------------------------------------------------------------------------------
# Targets, backends and their options
# ---------------------------------------------------------------------------------------------------------------------


def gpu_target(target: Target) -> Any:
    """Triton's own description of a target. Lanes per warp: 32 on NVIDIA and RDNA (gfx10 and later), 64 on CDNA (gfx9)."""
    if target.backend == "cuda":
        return GPUTarget("cuda", int(target.arch), 32)
    return GPUTarget("hip", target.arch, 64 if target.arch.startswith("gfx9") else 32)


@functools.cache
def backend_for(target: Target) -> Any:
    """Triton's backend for a target: needs neither the GPU nor its driver."""
    return make_backend(gpu_target(target))


@functools.cache
def backend_options(target: Target) -> Mapping[str, Any]:
    """Option name -> default, as the target's backend declares them: num_warps, num_stages, maxnreg, ..."""
    return dict(backend_for(target).parse_options({}).__dict__)


_CHOSEN_BY_TARGET = frozenset({"arch", "backend_name", "warp_size"})


def option_names(target: Target) -> list[str]:
    """The options that a launch may set on this target."""
    return [name for name in backend_options(target) if name not in _CHOSEN_BY_TARGET]


def check_options(options: Mapping[str, Any], target: Target) -> None:
    """Let the backend judge option values.

    Raises:
        OptionError: a value that the backend refuses, in the backend's words.
    """
    whole_numbers = _integer_options(target)
    for name, value in options.items():
        if name in whole_numbers and value is not None and not isinstance(value, int):
            raise OptionError(f"{name} must be an integer, and {value!r} was given.")
    try:
        backend_for(target).parse_options(dict(options))
    except Exception as error:
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise OptionError(f"{target} does not accept {given}: {error}") from error


@functools.cache
def _integer_options(target: Target) -> frozenset[str]:
    hints = typing.get_type_hints(type(backend_for(target).parse_options({})))
    return frozenset(
        name for name, hint in hints.items() if int in (typing.get_args(hint) or (hint,))
    )


def stage_names(kernel: Any, target: Target) -> list[str]:
    """The names of the compiler's stages for this kernel, first to last: ttir, ttgir, llir, ptx, cubin."""
    backend = backend_for(target)
    stages: dict[str, Any] = {}
    language = _source_class(kernel)(kernel, {}).language
    backend.add_stages(stages, backend.parse_options({}), language)
    return list(stages)


def current_gpu() -> tuple[str, str] | None:
    """The GPU that Triton would launch on, as (backend, architecture), or None where there is none."""
    try:
        target = triton.runtime.driver.active.get_current_target()
    except Exception:  # No driver, no device, no permission: Triton has a different error for each.
        return None
    return str(target.backend), str(target.arch)


def nvidia_tool(name: str) -> str:
    """Path of one of the NVIDIA tools bundled with Triton: "nvdisasm", "cuobjdump", "ptxas"."""
    return str(getattr(knobs.nvidia, name).path)


@functools.cache
def type_spellings() -> Mapping[str, str]:
    """Every name of a scalar type that Triton knows -> its spelling in a signature: "float32" -> "fp32", "bool" -> "u1"."""
    from triton._utils import type_canonicalisation_dict

    return {name: short for name, short in type_canonicalisation_dict.items() if short != "void"}


def triton_type(text: str) -> Any:
    """Triton's type object for a type string; raises whatever Triton raises for a string that it cannot read."""
    from triton.language import str_to_ty

    return str_to_ty(text, None)


# ---------------------------------------------------------------------------------------------------------------------
# From call arguments to a specialisation
# ---------------------------------------------------------------------------------------------------------------------

Binder = Callable[..., tuple[dict[str, Any], list[Any], dict[str, Any]]]
"""Called like the kernel; gives values by parameter, (type, hint) by parameter, and the keywords that are no parameter."""


def create_binder(kernel: Any, target: Target) -> Binder:
    """Triton's own binder of a kernel for a target: the same specialisation that a launch on that GPU would make."""
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


def refusal(value: Any, target: Target) -> Exception | None:
    """None if Triton can pass this value to a kernel, else the exception with which it refuses."""
    try:
        native_specialize_impl(backend_for(target), value, False, True, True)
    except Exception as error:
        return error
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Where a kernel stands, and what it calls
# ---------------------------------------------------------------------------------------------------------------------


def definition_of(function: Any) -> SourcePosition:
    """The `def` line of a JIT function, in the file or cell where it stands."""
    return SourcePosition(str(function.fn.__code__.co_filename), _first_line(function))


def _first_line(function: Any) -> int:
    # Triton keeps the source from `def` on; what `raw_src` has before that are decorator lines.
    whole = "".join(function.raw_src)
    decorators = whole.rstrip("\n").count("\n") - str(function.src).rstrip("\n").count("\n")
    return int(function.starting_line_number) + decorators


def _position_in(function: Any, node: Any) -> SourcePosition:
    """The place of an AST node of a JIT function: the node counts lines from `def` and columns from its indentation."""
    definition = definition_of(function)
    line = getattr(node, "lineno", None)
    if line is None:
        return definition
    return SourcePosition(
        definition.file, definition.line + line - 1, _indentation(function) + node.col_offset + 1
    )


def _indentation(function: Any) -> int:
    """Columns that Triton cut off when it dedented the function's source."""
    first = str(function.raw_src[0])
    return len(first) - len(first.lstrip())


def parameter_position(kernel: Any, name: str) -> SourcePosition:
    """Where a parameter stands in the kernel's `def`."""
    arguments = kernel.parse().body[0].args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.arg == name:
            return _position_in(kernel, argument)
    return definition_of(kernel)


def reachable_functions(kernel: Any) -> list[Any]:
    """The kernel and every JIT function that it may call, directly or not, the kernel first."""
    found: dict[int, Any] = {}
    waiting = [kernel]
    while waiting:
        function = waiting.pop(0)
        if id(function) in found or getattr(function, "fn", None) is None:
            continue
        found[id(function)] = function
        waiting += [value for value in _named_values(function.fn) if isinstance(value, JITCallable)]
    return list(found.values())


def scope_of(function: Any) -> dict[str, Any]:
    """The globals of a Python function, and the variables that it captures."""
    scope = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # Not assigned yet.
            continue
    return scope


def _named_values(function: Any) -> Iterator[Any]:
    """The objects that a Python function names: globals, captured variables, and attributes of modules among them."""
    scope = scope_of(function)
    code = function.__code__
    values = [scope[name] for name in (*code.co_names, *code.co_freevars) if name in scope]
    yield from values
    for module in [value for value in values if isinstance(value, ModuleType)]:
        for name in code.co_names:
            yield getattr(module, name, None)


# ---------------------------------------------------------------------------------------------------------------------
# Compiling
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompiledKernel:
    """What Triton's compiler made of one kernel."""

    stages: Mapping[str, str | bytes]
    """Stage name -> its text, or the bytes of the binary, in the order of the pipeline."""
    metadata: Mapping[str, Any] = field(repr=False)
    """The backend's options in force, and what it found out: "shared" (bytes), "name" (the entry's symbol), ..."""

    @property
    def asm(self) -> Mapping[str, str | bytes]:
        """The stages under the name that they have in Triton's own CompiledKernel, which `warmup` users know."""
        return self.stages


def compile_kernel(
    kernel: Any,
    specialization: Specialization,
    target: Target,
    options: Mapping[str, Any],
    *,
    ttgir_lines: bool = False,
) -> CompiledKernel:
    """Compile a kernel with `triton.compile`, on any machine.

    Triton's cache on disk is used as in a launch (TRITON_CACHE_DIR, TRITON_ALWAYS_COMPILE apply).

    Args:
        kernel: the plain JIT function.
        specialization, target, options: what it is compiled for.
        ttgir_lines: let the locations in what comes after TTGIR (LLVM IR, PTX, machine code) name lines of the TTGIR
            text instead of lines of Python; the instructions stay the same. See `locations_name_ttgir`.

    Raises:
        CompileError: the compiler refused; `position` is the line of the kernel, or of a helper of the user's that it calls.
        OptionError: an option value that the target's backend refuses.
    """
    asked = options_of_launch(kernel, options)
    check_options(asked, target)
    source = make_source(kernel, specialization)
    located = locations_name_ttgir(kernel.__name__) if ttgir_lines else nullcontext()
    with translated_errors(kernel, target), located:
        compiled = triton.compile(source, target=gpu_target(target), options=asked)
    names = [name for name in stage_names(kernel, target) if name in compiled.asm]
    return CompiledKernel(
        stages={name: compiled.asm[name] for name in names}, metadata=compiled.metadata._asdict()
    )


TTGIR_FILE_SUFFIX = ".kernellab.ttgir"
"""How the file is named that locations after TTGIR name, where they name lines of the TTGIR text."""


@contextmanager
def locations_name_ttgir(kernel_name: str) -> Iterator[None]:
    """While active, a compilation replaces every location by its line in the TTGIR text just before the LLVM stage.

    The TTGIR stage itself keeps the kernel's own locations, so that the two compose: machine code -> line of TTGIR -> kernel.
    Triton's stage hook makes room for this in 3.6 to 3.9; what such a compilation leaves in Triton's cache has a key of its own.
    """
    earlier = knobs.runtime.add_stages_inspection_hook

    def hook(*arguments: Any) -> Any:
        if not arguments:
            key, digest = earlier() if earlier is not None else ("", "")
            return key + TTGIR_FILE_SUFFIX, digest + TTGIR_FILE_SUFFIX
        if earlier is not None:
            earlier(*arguments)
        stages = arguments[1]
        stages["llir"] = after_location_snapshot(stages["llir"], kernel_name)
        return None

    knobs.runtime.add_stages_inspection_hook = hook
    try:
        yield
    finally:
        knobs.runtime.add_stages_inspection_hook = earlier


def after_location_snapshot(
    make_llir: Callable[..., str],
    kernel_name: str,
    relocated: Callable[[Any, str], None] | None = None,
) -> Callable[..., str]:
    """The LLVM stage, run on a module whose locations are lines of its own text.

    `relocated` is called with the module once it has these locations, and with the folder of the file that they name.
    """

    def make(module: Any, metadata: Any) -> str:
        with tempfile.TemporaryDirectory(prefix="kernellab-") as folder:
            module.create_location_snapshot(str(Path(folder, f"{kernel_name}{TTGIR_FILE_SUFFIX}")))
            if relocated is not None:
                relocated(module, folder)
            # The folder is gone after this, and of another name each time: nothing should carry it.
            return make_llir(module, metadata).replace(f'directory: "{folder}"', 'directory: ""')

    return make


def ttgir_naming_ttir_lines(
    ttir: str, target: Target, options: Mapping[str, Any]
) -> tuple[str, str]:
    """Run the TTGIR stage once more on a TTIR text, with locations that name lines of that text.

    Reading the text back costs some names of values (those of block arguments), and could in principle cost the same
    result: a caller compares with the TTGIR that it has.

    Returns:
        The TTIR as printed while its lines were counted, and the TTGIR whose locations name those lines.

    Raises:
        Exception: whatever the compiler raises; a caller has a compilation already and can do without.
    """
    backend = backend_for(target)
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    backend.load_dialects(context)
    known = {name: value for name, value in options.items() if name in backend_options(target)}
    parsed = backend.parse_options(known)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, Language.TRITON)
    with tempfile.TemporaryDirectory(prefix="kernellab-") as folder, _captured_output() as output:
        written, counted = Path(folder, "written.ttir"), Path(folder, "counted.ttir")
        written.write_text(ttir)
        module = libtriton.ir.parse_mlir_module(str(written), context)
        module.context = context
        module.create_location_snapshot(str(counted))
        ttgir = str(stages["ttgir"](module, {"num_warps": parsed.num_warps}))
        output.take()
        return counted.read_text(), ttgir


def options_of_launch(kernel: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a launch: `@triton.jit(debug=True)`, TRITON_DEBUG and instrumentation count as they do there."""
    asked = dict(options)
    asked["debug"] = bool(asked.get("debug", kernel.debug) or knobs.runtime.debug)
    asked.setdefault("instrumentation_mode", knobs.compilation.instrumentation_mode)
    return asked


def _source_class(kernel: Any) -> Any:
    return GluonASTSource if kernel.is_gluon() else ASTSource


def make_source(kernel: Any, specialization: Specialization) -> Any:
    """Triton's ASTSource of a kernel, with the files of its functions part of the cache key.

    Triton's own key has the source and the line, not the file: the same kernel pasted into another cell would come
    back from the cache with the first cell's file name in its locations.
    """
    base = _source_class(kernel)
    files = sorted({str(f.fn.__code__.co_filename) for f in reachable_functions(kernel)})

    def hash_with_files(source: Any) -> str:
        return hashlib.sha256("\n".join([base.hash(source), *files]).encode()).hexdigest()

    source_class = type(base.__name__, (base,), {"hash": hash_with_files})
    return source_class(
        kernel,
        dict(specialization.signature),
        dict(specialization.constants),
        dict(specialization.attributes),
    )


# ---------------------------------------------------------------------------------------------------------------------
# The compiler's errors, in terms of the user's lines
# ---------------------------------------------------------------------------------------------------------------------


@contextmanager
def translated_errors(
    kernel: Any, target: Target, running_pass: Callable[[], str | None] = lambda: None
) -> Iterator[_Output]:
    """Turn whatever the compiler raises inside the block into a CompileError on the kernel's own line.

    Args:
        kernel, target: what is compiled, and for what.
        running_pass: gives the label of the pass that is running, where someone watches.
    """
    with _captured_output() as output:
        try:
            yield output
        except KernelLabError:
            raise
        except CompilationError as error:
            output.take()
            raise _front_end_error(error, kernel, target) from error
        except PTXASError as error:
            printed = output.take()
            raise _assembler_error(error, kernel, target, printed) from error
        except Exception as error:
            printed = output.take()
            if name := _python_function(error):
                raise _python_function_error(name, kernel, target) from error
            raise _pass_error(error, kernel, target, printed, running_pass()) from error


def _front_end_error(error: Any, kernel: Any, target: Target) -> CompileError:
    """Triton nests one CompilationError per call: point at the innermost one that stands in the user's code."""
    functions = {str(function.src): function for function in reversed(reachable_functions(kernel))}
    library = str(Path(triton.__file__).parent)
    position = definition_of(kernel)
    chain = list(_compilation_errors(error))
    for nested in chain:
        function = functions.get(nested.src or "")
        if function is not None and not definition_of(function).file.startswith(library):
            position = _position_in(function, nested.node)
    words = next((e.error_message for e in reversed(chain) if e.error_message), "")
    return CompileError(
        f"Triton cannot compile {kernel.__name__!r} for {target}: "
        f"{_without_quotes(words) or _cause_of(chain[-1])}",
        position=position,
    )


def _compilation_errors(error: Any) -> Iterator[Any]:
    """The nested CompilationErrors, outermost first."""
    current: BaseException | None = error
    while isinstance(current, CompilationError):
        yield current
        current = current.__cause__


def _without_quotes(words: str) -> str:
    """Triton gives some causes by their repr: "NameError('x is not defined')" reads better with a colon."""
    match = re.fullmatch(r"""(\w+)\((['"])(.*)\2\)""", words, re.S)
    return f"{match[1]}: {match[3]}" if match else words


def _cause_of(error: BaseException) -> str:
    """Words for a CompilationError that carries none: an `assert` without a message is one."""
    cause = error.__cause__
    if cause is None:
        return type(error).__name__
    return f"{type(cause).__name__} {cause}".strip()


def _python_function(error: Exception) -> str | None:
    """The name of a plain Python function that a kernel calls, where that is what Triton complains about."""
    match = re.match(r"Unsupported function referenced: <function (\S+) at", str(error))
    return match[1].rpartition(".")[2] if match else None


def _python_function_error(name: str, kernel: Any, target: Target) -> CompileError:
    position = definition_of(kernel)
    for function in reachable_functions(kernel):
        for node in ast.walk(function.parse()):
            if name in (getattr(node, "id", None), getattr(node, "attr", None)):
                position = _position_in(function, node)
    return CompileError(
        f"Triton cannot compile {kernel.__name__!r} for {target}: {name!r} is a plain Python function.",
        advice=f"Put @triton.jit above {name!r}, or @triton.constexpr_function if it computes constants.",
        position=position,
    )


_DIAGNOSTIC = re.compile(
    r'^(?:loc\()?"?(?P<file>[^":\n]+)"?:(?P<line>\d+):(?P<column>\d+)\)?: error: (?P<words>.+)$',
    re.M,
)
"""MLIR's own form of an error: file:line:column, columns counted from 1."""


_ASSERTION = re.compile(
    r"^\S+: (?P<file>\S+):(?P<line>\d+): .*Assertion `(?P<words>.+)' failed\.$", re.M
)
_FATAL = re.compile(r"^LLVM ERROR: (?P<words>.+)$", re.M)
_FAILED_PASS = re.compile(r"Pipeline failed while executing \[.*?`(?P<name>\w+)` on")


def _pass_error(
    error: Exception, kernel: Any, target: Target, printed: str, running: str | None
) -> CompileError:
    """A pass failed: MLIR has printed its words, with the kernel's line, to stderr."""
    position = definition_of(kernel)
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    diagnostics = list(_DIAGNOSTIC.finditer(printed))
    told = next((d for d in diagnostics if "Failures have been detected" not in d["words"]), None)
    if told is not None:
        words = told["words"]
        position = native_position(kernel, told["file"], int(told["line"]), int(told["column"]))
    elif assertion := _ASSERTION.search(printed):
        where = f"{Path(assertion['file']).name}:{assertion['line']}"
        words = f"an assertion inside the compiler failed, {assertion['words']} ({where})"
    elif fatal := _FATAL.search(printed):
        words = fatal["words"]
    failed_pass = _FAILED_PASS.search(printed)
    if running is not None:
        words += f", in the pass {running}"
        words += f" ({failed_pass['name']})" if failed_pass else ""
    elif failed_pass:
        words += f", in the pass {failed_pass['name']}"
    return CompileError(
        f"Triton cannot compile {kernel.__name__!r} for {target}: {words}",
        position=position,
        failed_pass=running,
    )


_PTXAS_WORDS = re.compile(
    r"^ptxas(?:-\w+)?\s*(?:\S+, line (?P<line>\d+); )?\s*(?:error|fatal)\s*:\s*(?P<words>.+)$", re.M
)
_PTX_LOCATION = re.compile(r"^\s*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)\s+(?P<column>\d+)")


def _assembler_error(error: Any, kernel: Any, target: Target, printed: str) -> CompileError:
    """ptxas refused the PTX: its words, on the kernel's line that the PTX line came from."""
    words, numbers = _assembler_words(str(error))
    position, advice = definition_of(kernel), ""
    if numbers:
        lines = _printed_ptx(printed)
        position = _ptx_position(kernel, lines, numbers[0])
        if numbers[0] <= len(lines):
            advice = f"Line {numbers[0]} of the PTX is: {lines[numbers[0] - 1].strip()}"
    return CompileError(
        f"ptxas cannot assemble {kernel.__name__!r} for {target}: {words}",
        advice=advice,
        position=position,
        failed_pass="sass.ptxas",
    )


def _assembler_words(printed: str) -> tuple[str, list[int]]:
    """What ptxas complains about, and the lines of PTX that it names."""
    complaints = list(_PTXAS_WORDS.finditer(printed))
    words = "; ".join(dict.fromkeys(c["words"].strip() for c in complaints)) or printed
    return words, [int(c["line"]) for c in complaints if c["line"]]


def _printed_ptx(printed: str) -> list[str]:
    """The lines of the PTX that Triton prints when ptxas refuses it."""
    start = max(printed.find("//\n// Generated by LLVM NVPTX Back-End"), 0)
    return printed[start:].splitlines()


def _ptx_position(kernel: Any, lines: Sequence[str], number: int) -> SourcePosition:
    """The kernel's line of a PTX line, by the last `.loc` before it."""
    named = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"')
    files = {match[1]: match[2] for line in lines if (match := named.match(line))}
    for line in reversed(lines[:number]):
        if location := _PTX_LOCATION.match(line):
            file = files.get(location["file"], "")
            return native_position(kernel, file, int(location["line"]), int(location["column"]))
    return definition_of(kernel)


def native_position(kernel: Any, file: str, line: int, column: int) -> SourcePosition:
    """The place that the compiler's own location names: the file and line as they are, the column that of the AST node.

    A location in no function of the kernel's (in Triton's library, or unknown) becomes the kernel's `def` line; one in a
    TTGIR text stays: who has the text can say more.
    """
    if file.endswith(TTGIR_FILE_SUFFIX):
        return SourcePosition(file, line, column)
    return position_in_kernel(kernel, file, line, column) or definition_of(kernel)


def position_in_kernel(kernel: Any, file: str, line: int, column: int) -> SourcePosition | None:
    """A place that lies in a function of the kernel's, its column (from 0, indentation cut off) as in the file; else None."""
    for function in reachable_functions(kernel):
        definition = definition_of(function)
        last = definition.line + str(function.src).rstrip().count("\n")
        if definition.file == file and definition.line <= line <= last:
            return SourcePosition(file, line, _indentation(function) + column + 1)
    return None


class PipelineStopped(Exception):
    """Somebody who watches a compilation raises this to end it where it stands."""


@dataclass(frozen=True)
class IrText:
    """An IR text to compile on from."""

    text: str
    language: str
    """The stage whose result it is: "ttir", "ttgir", "llir", "ptx", "amdgcn"; "source" for a front end's module."""
    gluon: bool = False
    """Whether a front end's module is Gluon's."""
    file: str = ""
    """What messages call it: a path, or a few words."""

    @property
    def file_name(self) -> str:
        """A name for a file that holds it."""
        return f"given.{self.language}"


@contextmanager
def translated_text_errors(
    given: IrText, target: Target, running_pass: Callable[[], str | None]
) -> Iterator[None]:
    """Turn whatever the compiler raises about an IR text into a CompileError, on the text's line where it names one."""
    with redirect_stdout(io.StringIO()), _tapped_stderr() as printed:
        try:
            yield
        except (KernelLabError, PipelineStopped):
            raise
        except PTXASError as error:
            raise ptxas_refusal(str(error), given, target) from error
        except Exception as error:
            raise text_refusal(printed(), given, target, running_pass(), str(error)) from error


@contextmanager
def _tapped_stderr() -> Iterator[Callable[[], str]]:
    """Read back what is printed to stderr meanwhile.

    A worker process's stderr is a file: what is printed stays there, for whoever wants to know why the process died.
    """
    if stat.S_ISREG(os.fstat(2).st_mode) and fcntl.fcntl(2, fcntl.F_GETFL) & os.O_RDWR:
        start = os.lseek(2, 0, os.SEEK_END)
        yield lambda: os.pread(2, 1 << 24, start).decode(errors="replace")
    else:
        with _captured_output(replay=False) as output:
            yield output.take


def ptxas_refusal(printed: str, given: IrText, target: Target) -> CompileError:
    """ptxas' words about a PTX text, or about the PTX that was made of another text."""
    words, numbers = _assembler_words(printed)
    position = None
    if given.language == "ptx" and numbers:
        position = SourcePosition(given.file, numbers[0])
    return CompileError(
        f"ptxas cannot assemble {given.file} for {target}: {words}",
        position=position,
        failed_pass="sass.ptxas",
    )


def text_refusal(
    printed: str, given: IrText, target: Target, running: str | None, raised: str
) -> CompileError:
    """What MLIR or LLVM printed about an IR text, as an error on its line."""
    position = None
    words = raised or "the compiler gives no reason"
    told = [d for d in _DIAGNOSTIC.finditer(printed) if "Failures have been" not in d["words"]]
    if told:
        words = told[0]["words"]
        own = Path(told[0]["file"]).name == given.file_name
        file = given.file if own else told[0]["file"]
        position = SourcePosition(file, int(told[0]["line"]), int(told[0]["column"]))
    elif unplaced := re.search(r"^(?:<unknown>:0|loc\(unknown\)): error: (.+)$", printed, re.M):
        words = unplaced[1]
    elif fatal := _FATAL.search(printed):
        words = fatal["words"]
        if number := re.search(r"lineno: (\d+)$", words):
            words = words[: number.start()].rstrip()
            position = SourcePosition(given.file, int(number[1]))
    elif assertion := _ASSERTION.search(printed):
        where = f"{Path(assertion['file']).name}:{assertion['line']}"
        words = f"an assertion inside the compiler failed, {assertion['words']} ({where})"
    if running is not None:
        words += f", in the pass {running}"
    return CompileError(
        f"{given.file} cannot be compiled for {target}: {words}",
        position=position,
        failed_pass=running,
    )


class _Output:
    """What the compiler printed while it ran."""

    def __init__(self) -> None:
        self.python = io.StringIO()
        self.native_file = tempfile.TemporaryFile()  # noqa: SIM115, closed by _captured_output

    def take(self) -> str:
        """Everything printed so far. Of it only what the kernel itself printed will be shown: the rest is a dump of the
        whole program, which Triton and MLIR print when they fail."""
        printed = self.python.getvalue()
        self.native_file.seek(0)
        diagnostics = self.native_file.read().decode(errors="replace")
        self.native_file.truncate(0)
        dump = _DUMP.search(printed)
        self.python.seek(0)
        self.python.truncate()
        self.python.write(printed[: dump.start()] if dump else printed)
        return printed + diagnostics


_DUMP = re.compile(r"^(?:\s*={40,}|module |#\w+ = )", re.M)
"""Where a dump begins: the banner above a PTX that ptxas refused, or a module of MLIR."""

_capturing = threading.RLock()


@contextmanager
def _captured_output(replay: bool = True) -> Iterator[_Output]:
    """Hold back what the compiler prints, MLIR to the process's stderr and Triton to sys.stdout, until the block ends.

    MLIR reports its errors only there.
    """
    with _capturing:
        output = _Output()
        sys.stderr.flush()
        original = os.dup(2)
        os.dup2(output.native_file.fileno(), 2)
        try:
            with redirect_stdout(output.python):
                yield output
        finally:
            os.dup2(original, 2)
            os.close(original)
            if replay:
                _replay(output)
            output.native_file.close()


def _replay(output: _Output) -> None:
    if text := output.python.getvalue():
        sys.stdout.write(text)
    output.native_file.seek(0)
    if words := output.native_file.read():
        os.write(2, words)


# ---------------------------------------------------------------------------------------------------------------------
# The front end alone (TTIR for the interpreter)
# ---------------------------------------------------------------------------------------------------------------------


def make_ttir(
    kernel: Any, specialization: Specialization, target: Target, options: Mapping[str, Any]
) -> Any:
    """The kernel's TTIR module for a target, from Triton's front end and a few of its own passes.

    Helper functions are inlined, block pointers and descriptors become plain pointers, and what is computed twice or for
    nothing is gone; nothing that a GPU wants is done yet.

    Raises:
        CompileError, OptionError: as for `compile_kernel`.
    """
    asked = options_of_launch(kernel, options)
    check_options(asked, target)
    source, backend = make_source(kernel, specialization), backend_for(target)
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    backend.load_dialects(context)
    with translated_errors(kernel, target):
        parsed = backend.parse_options(asked)
        module = source.make_ir(
            gpu_target(target),
            parsed,
            backend.get_codegen_implementation(parsed),
            backend.get_module_map(),
            context,
        )
        _simplify(module)
    return module


def _simplify(module: Any) -> None:
    common, ttir = libtriton.passes.common, libtriton.passes.ttir
    manager = libtriton.ir.pass_manager(module.context)
    common.add_inliner(manager)
    ttir.add_rewrite_tensor_pointer(manager)
    ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
    common.add_canonicalizer(manager)
    common.add_cse(manager)
    common.add_licm(manager)
    common.add_canonicalizer(manager)
    common.add_cse(manager)
    common.add_symbol_dce(manager)
    manager.run(module, "interpreter")


# ---------------------------------------------------------------------------------------------------------------------
# Texts of MLIR: read by MLIR, printed in the form that needs no knowledge of any op
# ---------------------------------------------------------------------------------------------------------------------


def parse_mlir(text: str, target: Target) -> Any:
    """The module of MLIR that a text describes, pretty or generic: TTIR, TTGIR, or the LLVM dialect, of a target.

    What has no location in the text gets an unknown one. The text must come from the compiler, or be read in a process that
    may abort: MLIR asserts, and some attributes that it never prints make it do so.

    Raises:
        KernelLabError: MLIR cannot read the text; the message has MLIR's own words and the line.
    """
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    backend_for(target).load_dialects(context)
    with tempfile.TemporaryDirectory(prefix="kernellab-") as folder, _captured_output() as output:
        file = Path(folder, "module.mlir")
        file.write_text(text)
        try:
            module = libtriton.ir.parse_mlir_module(str(file), context)
        except RuntimeError as error:
            words = _ERROR_IN_TEXT.sub(r"line \1, column \2: ", output.take()).strip()
            raise KernelLabError(f"MLIR cannot read this text: {words or error}") from error
    module.context = context
    return module


def generic_form(text: str, target: Target) -> str:
    """A text of MLIR in MLIR's generic form, locations included.

    Raises:
        KernelLabError: as for `parse_mlir`.
    """
    generic = generic_text(parse_mlir(text, target))
    # MLIR takes the place in the text that it reads for the origin of what states none.
    return _PLACE_IN_TEXT.sub("loc(unknown)", generic)


_PLACE_IN_TEXT = re.compile(r'loc\("[^"]*/kernellab-[^"/]*/module\.mlir":\d+:\d+\)')
_ERROR_IN_TEXT = re.compile(r'loc\("[^"]*/module\.mlir":(\d+):(\d+)\): error: ')

_UNPRINTABLE = "llvm.data_layout"
"""An attribute whose value MLIR verifies while printing: an invalid one makes it print the generic form."""


def generic_text(module: Any) -> str:
    """The module in MLIR's generic form, locations included: every op quoted, every attribute spelt out."""
    builder = libtriton.ir.builder(module.context)
    module.set_attr(_UNPRINTABLE, builder.get_string_attr("generic form, please"))
    text = str(module)
    return re.sub(
        rf' ?{{{re.escape(_UNPRINTABLE)} = "[^"]*"}}|{re.escape(_UNPRINTABLE)} = "[^"]*",? ?',
        "",
        text,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Kernels made under our eyes, and autotuners that nothing can time
# ---------------------------------------------------------------------------------------------------------------------


@contextmanager
def kernels_become(adopt: Callable[[Any], None], file: str) -> Iterator[None]:
    """While active, each kernel that `@triton.jit` or `@gluon.jit` makes of a function in `file` is handed to `adopt`.

    `adopt` may change the finished kernel's class to a subclass of it. The decorators themselves stay what they are,
    however they were imported; so does every `isinstance` check, and every kernel of another file.
    """
    initialise = JITFunction.__init__

    @functools.wraps(initialise)
    def initialise_and_adopt(kernel: Any, fn: Any, *args: Any, **keywords: Any) -> None:
        initialise(kernel, fn, *args, **keywords)
        code = getattr(fn, "__code__", None)
        if code is not None and code.co_filename == file:
            if type(kernel) in (JITFunction, GluonJITFunction):
                adopt(kernel)

    JITFunction.__init__ = initialise_and_adopt
    try:
        yield
    finally:
        JITFunction.__init__ = initialise


LEFT_TO_TRITON = object()
"""What an autotuned launch's taker returns for a launch that it does not take."""

AutotunedLaunch = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]
"""Given an autotuner and a launch's arguments: launches, or returns LEFT_TO_TRITON."""

_takers: list[AutotunedLaunch] = []


def offer_autotuned_launches(taker: AutotunedLaunch) -> None:
    """Offer each autotuned launch to `taker` before Triton times configs; an earlier taker is replaced.

    Triton's Autotuner asks the GPU's driver for a benchmarker before anything else, so it cannot launch without one.
    """
    if not _takers:
        Autotuner.run = _run_unless_taken(Autotuner.run)
    _takers[:] = [taker]


def _run_unless_taken(run_timed: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run_timed)
    def run(autotuner: Any, *args: Any, **keywords: Any) -> Any:
        result = _takers[0](autotuner, args, keywords)
        return run_timed(autotuner, *args, **keywords) if result is LEFT_TO_TRITON else result

    return run
