"""One compilation by Triton, with line information for TTGIR; and its front end alone."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton import knobs
from triton._C import libtriton
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.experimental.gluon.language import NVMMASharedLayout
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.runtime.cache import FileCacheManager
from triton.tools.tensor_descriptor import TensorDescriptor

from kernellab.common.system import temporary_folder
from kernellab.records import Specialization, Target
from kernellab.triton_api.debug_info import (
    DebugRecords,
    debugging_statements_are_read,
    recording_debug_info,
)
from kernellab.triton_api.diagnostics import TTGIR_FILE_SUFFIX, captured_output, translated_errors
from kernellab.triton_api.emulation import current_target_is
from kernellab.triton_api.fixes.rules import Attempt
from kernellab.triton_api.functions import reachable_functions
from kernellab.triton_api.kernel_contents import check_globals, note_compiled
from kernellab.triton_api.kernel_stubs import is_given, read_given_module
from kernellab.triton_api.stages import (
    careful_assembler,
    freed_after,
    front_end_module,
    generic_text,
    is_whole,
    read_module,
    stage_functions,
    stage_names,
)
from kernellab.triton_api.targets import (
    ast_source_class,
    backend_for,
    backend_options,
    check_instructions,
    check_options,
    gpu_target,
)

# Warnings of Triton's front end, shown once, at the kernel's line.
#
# A kernel is read again for each way that it runs: stepped, checked, compiled. Triton warns each
# time, and passes Python a text in place of the object at fault, which adds a line about
# tracemalloc.

_shown: set[tuple[str, int, str]] = set()
"""File, line and words of the warnings that were shown."""


@contextmanager
def warnings_shown_once() -> Iterator[None]:
    """While active, collect warnings; then show those that are new, as the filters say."""
    with warnings.catch_warnings(record=True) as waiting:
        warnings.simplefilter("always")
        yield
    for warning in waiting:
        words = (warning.filename, warning.lineno, str(warning.message))
        if words not in _shown:
            _shown.add(words)
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


@dataclass(frozen=True)
class CompiledKernel:
    """The result of Triton's compiler for one kernel."""

    stages: Mapping[str, str | bytes]
    """Stage name -> its text, or the bytes of the binary, in the order of the pipeline."""
    metadata: Mapping[str, Any] = field(repr=False)
    """The backend's options in force, and what it found out:
    "shared" (bytes), "name" (the entry's symbol), ..."""
    assembler_log: str | None = field(default=None, repr=False)
    """The output of `ptxas -v`; None if it was not recorded."""

    @property
    def asm(self) -> Mapping[str, str | bytes]:
        """The stages under the name that Triton's own CompiledKernel has for `warmup`."""
        return self.stages


def compile_kernel(
    kernel: Any,
    specialization: Specialization,
    target: Target,
    options: Mapping[str, Any],
    *,
    ttgir_lines: bool = False,
    for_launch: bool = False,
) -> CompiledKernel:
    """Compile a kernel with `triton.compile`, on any machine.

    Triton's cache on disk is used as in a launch (TRITON_CACHE_DIR, TRITON_ALWAYS_COMPILE apply).

    Args:
        kernel: the plain JIT function.
        specialization, target, options: what it is compiled for.
        ttgir_lines: let the locations in what comes after TTGIR (LLVM IR, PTX, machine code) name
            lines of the TTGIR text instead of lines of Python; the instructions stay the same. See
            `locations_name_ttgir`.
        for_launch: leave it in Triton's cache where a launch on the GPU, by any process, finds it.

    Raises:
        CompileError: the compiler refused; `position` is the line of the kernel, or of a helper of
            the user's that it calls.
        OptionError: an option value that the target's backend refuses.
    """
    variant = TTGIR_FILE_SUFFIX if ttgir_lines else ""
    located = locations_name_ttgir(kernel.__name__) if ttgir_lines else nullcontext()
    with located:
        compiled = compile_natively(
            kernel, specialization, target, options, variant, for_launch=for_launch
        )
    names = [name for name in stage_names(target, bool(kernel.is_gluon())) if name in compiled.asm]
    return CompiledKernel(
        stages={name: compiled.asm[name] for name in names}, metadata=compiled.metadata._asdict()
    )


def compile_natively(
    kernel: Any,
    specialization: Specialization,
    target: Target,
    options: Mapping[str, Any],
    variant: str = "",
    *,
    for_launch: bool = False,
) -> Any:
    """What `triton.compile` makes of a kernel: Triton's own CompiledKernel,
    not yet loaded onto any device.

    `variant` becomes part of the cache's key; with `for_launch`, that is the key of a launch.
    Raises as `compile_kernel` does.
    """
    launch_options = options_of_launch(kernel, options)
    check_options(launch_options, target)
    source = make_source(kernel, specialization, None if for_launch else variant)
    make_ir = warnings_shown_once()(source.make_ir)
    with (
        translated_errors(kernel, target),
        careful_assembler(backend_for(target)),
        ExitStack() as made,
    ):

        def told_ir(gpu: Any, parsed: Any, *arguments: Any) -> Any:
            """Translate errors of the front end here: on the way out of `triton.compile` an error
            loses Triton's frames, and with them the kernel's variables, which fixes are made of.
            """
            attempt = attempt_with(specialization, target, parsed)
            with translated_errors(kernel, target, attempt=attempt):
                module = made.enter_context(freed_after(make_ir(gpu, parsed, *arguments)))
                check_instructions(module, kernel, target)
                return module

        source.make_ir = told_ir
        compiled = _compiled(source, target=gpu_target(target), options=launch_options)
    note_compiled(kernel)
    return compiled


def _compiled(source: Any, **keywords: Any) -> Any:
    """`triton.compile`, for which a damaged entry of its cache is none."""
    try:
        compiled = triton.compile(source, **keywords)
        binary = compiled.asm.get("cubin", compiled.asm.get("hsaco"))
        # A file of the cache may be cut off; some targets have no binary.
        if not isinstance(binary, bytes) or is_whole(binary):
            return compiled
    except (ValueError, LookupError, TypeError, AttributeError, OSError) as error:
        if not _is_of_cache(error):
            raise
    with knobs.compilation.scope(), knobs.cache.scope():
        knobs.compilation.always_compile = True
        knobs.cache.manager_class = _forgiving(knobs.cache.manager_class)
        return triton.compile(source, **keywords)


def _forgiving(manager: Any) -> Any:
    """A manager of Triton's cache to which a damaged list of an entry's files is none."""

    class Forgiving(manager or FileCacheManager):  # type: ignore[misc]
        def get_group(self, filename: str) -> Any:
            try:
                return super().get_group(filename)
            except Exception:  # whatever JSON the file holds
                return None

    return Forgiving


def _is_of_cache(error: BaseException) -> bool:
    """Whether an error was raised where Triton reads an entry of its cache."""
    reader = triton.compiler.CompiledKernel.__init__.__code__
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if code is reader or code.co_name == "get_group":
            return True
        entry = entry.tb_next
    return False


def load(compiled: Any) -> None:
    """Load a CompiledKernel of Triton's onto the active driver's device: only then has it `n_regs`,
    `n_spills`, ... Raises OutOfResources: it needs more than the device has.
    """
    compiled._init_handles()


@contextmanager
def locations_name_ttgir(kernel_name: str) -> Iterator[None]:
    """While active, a compilation replaces every location by its line
    in the TTGIR text just before the LLVM stage.

    The TTGIR stage itself keeps the kernel's own locations, so that the two compose: machine code
    -> line of TTGIR -> kernel. Triton's stage hook allows this in 3.6 to 3.9. From 3.7 on
    the hook gives what such a compilation leaves in Triton's cache a separate key; 3.6 does not
    use the hook for keys, so the source has to (`make_source`).
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
    """The LLVM stage, run on a module whose locations are lines of the module's text.

    `relocated` is called with the module once it has these locations,
    and with the folder of the file that they name.
    """

    def make(module: Any, metadata: Any) -> str:
        with temporary_folder() as folder:
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

    Reading the text back costs some names of values (those of block arguments),
    and could in principle cost the same result: a caller compares with the TTGIR that it has.

    Returns:
        The TTIR as printed while its lines were counted, and the TTGIR
        whose locations name those lines.

    Raises:
        Exception: whatever the compiler raises; a caller has a compilation already
            and can do without.
    """
    backend = backend_for(target)
    known = {name: value for name, value in options.items() if name in backend_options(target)}
    parsed = backend.parse_options(known)
    with temporary_folder() as folder, captured_output() as output:
        counted = Path(folder, "counted.ttir")
        with freed_after(read_module(ttir, backend)) as module:
            module.create_location_snapshot(str(counted))
            to_ttgir = stage_functions(backend, parsed)["ttgir"]
            ttgir = str(to_ttgir(module, {"num_warps": parsed.num_warps}))
        output.take()
        return counted.read_text(encoding="utf-8"), ttgir


def options_of_launch(kernel: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a launch, with `@triton.jit(debug=True)`, TRITON_DEBUG and instrumentation."""
    launch_options = dict(options)
    launch_options["debug"] = bool(launch_options.get("debug", kernel.debug) or knobs.runtime.debug)
    launch_options.setdefault("instrumentation_mode", knobs.compilation.instrumentation_mode)
    return launch_options


def make_source(kernel: Any, specialization: Specialization, variant: str | None = "") -> Any:
    """Triton's ASTSource of a kernel, with the files of its functions, and `variant`,
    part of the cache key.

    A variant of None keeps Triton's own key, that of a launch.

    While its front end runs, the target that it compiles for is the current one: code that queries
    the GPU (`tl.target_info`, the check of a descriptor's reductions) gets that target, whatever
    GPU this machine has.

    Triton's own key has the source and the line, not the file: the same kernel pasted into another
    cell would come back from the cache with the first cell's file name in its locations.
    """
    check_globals(kernel)  # a helper that was defined again is part of the key
    base = ast_source_class(kernel)
    files = sorted({str(f.fn.__code__.co_filename) for f in reachable_functions(kernel)})

    def hash_with_files(source: Any) -> str:
        parts = [base.hash(source), *files, variant or ""]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def make_ir_for_target(source: Any, target: Any, *arguments: Any) -> Any:
        if is_given(kernel):
            return read_given_module(kernel, source, context=arguments[-1])
        with current_target_is(target):
            return base.make_ir(source, target, *arguments)

    members: dict[str, Any] = {"make_ir": make_ir_for_target}
    if variant is not None:
        members["hash"] = hash_with_files
    source_class = type(base.__name__, (base,), members)
    return source_class(
        kernel,
        dict(specialization.signature),
        dict(specialization.constants),
        dict(specialization.attributes),
    )


def specialization_of_variant(variant: Any, specialization: Specialization) -> Specialization:
    """The specialization for a variant, in which an unspecialized argument of 1 is a number."""
    signature, constants = dict(specialization.signature), dict(specialization.constants)
    for place, parameter in enumerate(variant.params):
        is_one = constants.get((place,)) == 1 and not parameter.is_constexpr
        if parameter.do_not_specialize and is_one:
            signature[parameter.name] = "i32"
            del constants[(place,)]
    return replace(specialization, signature=signature, constants=constants)


def make_ttir(
    kernel: Any, specialization: Specialization, target: Target, options: Mapping[str, Any]
) -> Any:
    """The kernel's TTIR module for a target, from Triton's front end and a few of its passes.

    Helper functions are inlined, block pointers become plain pointers,
    and what is computed twice or for nothing is gone; nothing that a GPU wants is done yet.

    Raises:
        CompileError, OptionError: as for `compile_kernel`.
    """
    module = _front_end(kernel, specialization, target, options_of_launch(kernel, options))
    with translated_errors(kernel, target):
        _simplify(module)
    return module


def make_ttir_with_debug_info(
    kernel: Any, specialization: Specialization, target: Target, options: Mapping[str, Any]
) -> tuple[Any, DebugRecords]:
    """The kernel's TTIR as Triton's front end leaves it, helper functions called,
    with a debug record for every statement; see `debug_info`.

    Block pointers become plain pointers; where helper functions take or give some,
    functions are inlined.

    Raises:
        CompileError, OptionError: as for `compile_kernel`.
    """
    launch_options = options_of_launch(kernel, options)
    if not launch_options["debug"]:
        launch_options["sanitize_overflow"] = False  # checks that only debug=True asks for
    with recording_debug_info() as records:
        module = _front_end(kernel, specialization, target, launch_options)
    with translated_errors(kernel, target):
        _rewrite_block_pointers(module)
    return module, records


def front_end_text(
    kernel: Any,
    specialization: Specialization,
    target: Target,
    options: Mapping[str, Any],
    *,
    debug_info: bool = False,
) -> tuple[str, DebugRecords]:
    """The module that Triton's front end makes of a kernel, before any pass, in MLIR's generic
    form; with `debug_info` as `make_ttir_with_debug_info` has it, and its debug records. Raises
    CompileError, OptionError: as for `compile_kernel`.
    """
    if debug_info:
        module, records = make_ttir_with_debug_info(kernel, specialization, target, options)
    else:
        launch_options = options_of_launch(kernel, options)
        module, records = _front_end(kernel, specialization, target, launch_options), ()
    with freed_after(module):
        return generic_text(module), records


def _front_end(
    kernel: Any, specialization: Specialization, target: Target, launch_options: Mapping[str, Any]
) -> Any:
    check_options(launch_options, target)
    parsed = backend_for(target).parse_options(launch_options)
    attempt = attempt_with(specialization, target, parsed)
    with translated_errors(kernel, target, attempt=attempt), debugging_statements_are_read():
        return module_of_kernel(kernel, specialization, target, parsed)


def attempt_with(specialization: Specialization, target: Target, parsed: Any) -> Attempt:
    """What has the front end compile a variant of a kernel, to try a fix."""

    def attempt(variant: Any) -> None:
        kept = specialization_of_variant(variant, specialization)
        with freed_after(module_of_kernel(variant, kept, target, parsed)):
            pass

    return attempt


def module_of_kernel(
    kernel: Any, specialization: Specialization, target: Target, parsed: Any
) -> Any:
    """The module that Triton's front end makes of a kernel, before any pass."""
    source = make_source(kernel, specialization)
    source.hash()  # notes the globals that the kernel reads, which must not change any more
    with warnings_shown_once():
        module = front_end_module(source, target, parsed)
    note_compiled(kernel)
    return module


def _rewrite_block_pointers(module: Any) -> None:
    """Make plain pointers of block pointers; functions that are passed some are inlined."""
    operations: list[Any] = []
    module.walk(operations.append)
    if not any(op.get_name() == "tt.make_tensor_ptr" for op in operations):
        return
    manager = libtriton.ir.pass_manager(module.context)
    if any(op.get_name() == "tt.call" and _passes_block_pointers(op) for op in operations):
        libtriton.passes.common.add_inliner(manager)
    libtriton.passes.ttir.add_rewrite_tensor_pointer(manager)
    manager.run(module, "interpreter")


def _passes_block_pointers(call: Any) -> bool:
    operands = [call.get_operand(number) for number in range(call.get_num_operands())]
    results = [call.get_result(number) for number in range(call.get_num_results())]
    return any(str(value.get_type()).startswith("!tt.ptr<tensor") for value in operands + results)


def _simplify(module: Any) -> None:
    common, ttir = libtriton.passes.common, libtriton.passes.ttir
    manager = libtriton.ir.pass_manager(module.context)
    common.add_inliner(manager)
    if hasattr(ttir, "add_rewrite_tensor_pointer"):  # not from Triton 3.9 on
        ttir.add_rewrite_tensor_pointer(manager)
    common.add_canonicalizer(manager)
    common.add_cse(manager)
    common.add_licm(manager)
    common.add_canonicalizer(manager)
    common.add_cse(manager)
    common.add_symbol_dce(manager)
    manager.run(module, "interpreter")


# What the IR of Triton's front end depends on in addition to the kernel, for keys of caches.

_PARTS = "_C", "backends", "compiler", "experimental", "language", "runtime"
"""Folders of Triton's package with files that decide what IR a kernel becomes."""


def environment_of_front_end() -> tuple[tuple[str, str], ...]:
    """The environment variables that Triton's compiler reads, with their values."""
    return tuple(sorted(get_cache_invalidating_env_vars().items()))


def files_of_front_end() -> Iterator[Path]:
    """The files of Triton that decide what IR a kernel becomes."""
    folder = Path(triton.__file__).parent
    for part in _PARTS:
        for file in sorted((folder / part).rglob("*")):
            if file.suffix == ".py" or file.name.startswith("libtriton"):
                yield file


def always_compiles() -> bool:
    """Whether nothing is to be taken from a cache: TRITON_ALWAYS_COMPILE."""
    return bool(knobs.compilation.always_compile)


def dtype_named(name: str) -> Any:
    """Return the type of elements that Triton writes so: "fp32"."""
    return tl.dtype(name)


def is_dtype(value: Any) -> bool:
    """Whether a value is one of Triton's types of elements: tl.float32."""
    return isinstance(value, tl.dtype)


DESCRIPTORS = (TensorDescriptor, GluonDescriptor)
"""Descriptors of tensors that the host makes; `base` is the tensor."""


def descriptor_parts(descriptor: Any) -> dict[str, Any]:
    """Return what a descriptor states beside its tensor, in types that JSON has."""
    parts = {field.name: getattr(descriptor, field.name) for field in fields(descriptor)}
    del parts["base"]
    for name in ("shape", "strides", "block_shape"):
        parts[name] = [int(size) for size in parts[name]]
    if "layout" in parts:
        parts["layout"] = asdict(parts["layout"])
    return parts


def descriptor_of(base: Any, parts: Mapping[str, Any]) -> Any:
    """Return a descriptor of parts. Raises AssertionError, TypeError: they are not its parts."""
    if "layout" not in parts:
        return TensorDescriptor(base, **parts)
    layout = NVMMASharedLayout(**parts["layout"])
    return GluonDescriptor(base, **{**parts, "layout": layout})
