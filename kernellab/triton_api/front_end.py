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
from kernellab.triton_api.front_end_warnings import told_once
from kernellab.triton_api.kernel_contents import note_compiled
from kernellab.triton_api.option_values import check_options
from kernellab.triton_api.stages import front_end_module
from kernellab.triton_api.targets import backend_for


def make_ttir(
    kernel: Any, specialization: Specialization, target: Target, options: Mapping[str, Any]
) -> Any:
    """The kernel's TTIR module for a target, from Triton's front end and a few of its own passes.

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
    asked = options_of_launch(kernel, options)
    if not asked["debug"]:
        asked["sanitize_overflow"] = False  # checks that only debug=True asks for
    with recording_debug_info() as records:
        module = _front_end(kernel, specialization, target, asked)
    with translated_errors(kernel, target):
        _rewrite_block_pointers(module)
    return module, records


def _front_end(
    kernel: Any, specialization: Specialization, target: Target, asked: Mapping[str, Any]
) -> Any:
    check_options(asked, target)
    source, backend = make_source(kernel, specialization), backend_for(target)
    with translated_errors(kernel, target), debugging_statements_are_read():
        source.hash()  # notes the globals that the kernel reads, which must not change any more
        with told_once():
            module = front_end_module(source, target, backend.parse_options(asked))
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
    found: list[Any] = []
    module.walk(found.append)
    return found


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
