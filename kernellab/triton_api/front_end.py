"""Triton's front end alone: TTIR for the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triton._C import libtriton

from kernellab.records import Specialization, Target
from kernellab.triton_api.compiling import make_source, options_of_launch
from kernellab.triton_api.debug_info import DebugRecords, recording_debug_info
from kernellab.triton_api.debugging_statements import debugging_statements_are_read
from kernellab.triton_api.diagnostics import translated_errors
from kernellab.triton_api.front_end_warnings import warnings_shown_once
from kernellab.triton_api.kernel_contents import note_compiled
from kernellab.triton_api.mlir_text import generic_text
from kernellab.triton_api.option_values import check_options
from kernellab.triton_api.stages import freed_after, front_end_module
from kernellab.triton_api.targets import backend_for


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
    with a debug record for every statement; see `marking`.

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
    form; with `debug_info` as `make_ttir_with_debug_info` has it, and its debug records.

    Raises:
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

    def attempt(variant: Any) -> None:
        with freed_after(module_of_kernel(variant, specialization, target, parsed)):
            pass

    with translated_errors(kernel, target, attempt=attempt), debugging_statements_are_read():
        return module_of_kernel(kernel, specialization, target, parsed)


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
    """Make plain pointers of block pointers; where calls pass some, the functions are inlined,
    for the pass cannot follow them.
    """
    operations = _operations(module)
    if not any(op.get_name() == "tt.make_tensor_ptr" for op in operations):
        return
    manager = libtriton.ir.pass_manager(module.context)
    if any(op.get_name() == "tt.call" and _passes_block_pointers(op) for op in operations):
        libtriton.passes.common.add_inliner(manager)
    libtriton.passes.ttir.add_rewrite_tensor_pointer(manager)
    manager.run(module, "interpreter")


def _operations(module: Any) -> list[Any]:
    modules: list[Any] = []
    module.walk(modules.append)
    return modules


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
