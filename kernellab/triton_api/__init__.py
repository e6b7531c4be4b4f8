"""Triton's private API, in one place: a new version of Triton changes only this folder.

Runs on Triton 3.6 to 3.9, on machines with no GPU and no driver.
"""

from __future__ import annotations

import importlib.util
import sys


def require_triton() -> None:
    """Say kindly why KernelLab cannot start here, before Triton's own import fails obscurely."""
    if sys.platform != "linux":
        raise ImportError(
            f"KernelLab needs Linux, and this is {sys.platform!r}: it drives the Triton compiler, "
            "whose wheels exist for Linux only. On Windows use WSL; on a Mac use a Linux "
            "container (amd64 or arm64); anywhere, use Google Colab. No GPU is needed. The README "
            "has the commands."
        )
    if importlib.util.find_spec("triton") is None:
        raise ImportError(
            "KernelLab needs the Triton compiler, and this Python has none. Install it with a "
            "matching torch: pip install torch==2.13.0 triton==3.7.1. No GPU is needed."
        )


def refuse_interpreter_mode() -> None:
    """Raise ImportError if TRITON_INTERPRET=1 has replaced Triton's library by Python functions."""
    import triton.language as tl
    from triton import knobs

    if knobs.runtime.interpret or not isinstance(tl.sum, JITFunction):
        raise ImportError(
            "TRITON_INTERPRET=1 is set, so Triton has replaced its compiler by its own "
            "interpreter. KernelLab has its own interpreter and needs the compiler: unset "
            "TRITON_INTERPRET and restart Python (or the notebook's kernel)."
        )


require_triton()

from triton.experimental.gluon._runtime import GluonJITFunction
from triton.runtime.autotuner import Autotuner, Config, Heuristics
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITCallable, JITFunction

refuse_interpreter_mode()

from kernellab.triton_api.compilation import (
    CompiledKernel,
    after_location_snapshot,
    compile_kernel,
    compile_natively,
    front_end_text,
    load,
    locations_name_ttgir,
    make_source,
    make_ttir,
    make_ttir_with_debug_info,
    options_of_launch,
    ttgir_naming_ttir_lines,
)
from kernellab.triton_api.debug_info import (
    DEBUG_RECORD,
    Constant,
    DebugRecord,
    DebugRecords,
    Group,
    Held,
    Operand,
    SourceFunction,
    rewrite_debugging_statements,
)
from kernellab.triton_api.diagnostics import (
    TTGIR_FILE_SUFFIX,
    IrText,
    PipelineStopped,
    is_machines_fault,
    native_position,
    position_in_kernel,
    text_diagnostic,
    translated_errors,
    translated_machine_errors,
)
from kernellab.triton_api.emulation import (
    EmulatedDriver,
    Emulation,
    StandIn,
    current_emulation,
    current_gpu,
    driver_is,
    emulated,
    emulation_joined,
    emulation_of,
    emulations,
)
from kernellab.triton_api.functions import (
    JIT_SETTINGS,
    compiled_lines,
    definition_of,
    edited_functions,
    format_edited,
    function_sources,
    is_in_library,
    is_tile_method,
    jit_settings,
    only_kernels_call,
    parameter_position,
    position_in,
    reachable_functions,
    scope_of,
    shown_as_compiled,
    source_now,
    unreadable_functions,
)
from kernellab.triton_api.kernel_contents import (
    MadeOf,
    check_globals,
    functions_within,
    is_made_of_the_same,
    is_variant,
    made_of,
    note_compiled,
    with_source,
)
from kernellab.triton_api.kernel_stubs import (
    GivenModule,
    entry_fits,
    facts_of,
    give_module,
    given_kernel,
    given_texts,
    is_given,
    records_as_json,
    records_from_json,
)
from kernellab.triton_api.kernel_text import literal_of, python_function, standalone_text
from kernellab.triton_api.patches import (
    AutotunedLaunches,
    autotuned_launches_offered,
    kernels_become,
    offer_autotuned_launches,
    pruned_configs,
)
from kernellab.triton_api.stages import (
    freed_after,
    generic_form,
    generic_text,
    parse_mlir,
    stage_names,
)
from kernellab.triton_api.targets import (
    CTAS_LOAD_FROM_OTHERS,
    CTAS_SHARE_BARRIERS,
    LOCATES_WHOLE_EXPRESSIONS,
    STORE_WAITS_FOR_WRITES,
    ast_source_class,
    backend_for,
    backend_options,
    binding_error,
    check_options,
    column_from_one,
    column_in_location,
    compiler_key,
    compute_capability,
    create_binder,
    gpu_target,
    make_specialization,
    may_be_of_file,
    nvidia_tool,
    option_names,
    toolkit_version,
    triton_type,
    type_spellings,
)
