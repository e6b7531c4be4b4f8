"""Diagnostics, what is said of a kernel, a launch or this machine; and the errors that
KernelLab raises on purpose.
"""

from kernellab.errors.exceptions import (
    ArchiveError,
    ArgumentError,
    Change,
    CompilationStopped,
    CompileError,
    Deadlock,
    Diagnostic,
    EndlessWait,
    ExtraArrival,
    GpuFault,
    GridError,
    InvalidBarrier,
    KernelFault,
    KernelLabError,
    LayoutError,
    MachineError,
    MissingArguments,
    NoGpu,
    NoGrid,
    NoSuchStage,
    NoSuchStep,
    NotRecorded,
    Occurrence,
    OptionError,
    OutOfBounds,
    ProfileError,
    ProgramId,
    Severity,
    TargetError,
    UnsupportedOperation,
    WaitingProgram,
    WorkerError,
    WorkerLost,
    changes_between,
    clipped,
    json_value,
    nearest,
    suggestion,
)
from kernellab.errors.sources import (
    WITHOUT_SOURCE,
    CompiledLines,
    SourcePosition,
    compiled_at,
    compiled_text,
    file_in_traceback,
    format_edited,
    frame_at,
    is_edited,
    keep_compiled,
    label_file,
    label_files_by,
    raise_at,
    show_no_other_lines,
    source_line,
    source_lines,
    visible,
)

__all__ = [
    "WITHOUT_SOURCE", "ArchiveError", "ArgumentError", "Change", "CompilationStopped",
    "CompileError", "CompiledLines", "Deadlock", "Diagnostic", "EndlessWait", "ExtraArrival",
    "GpuFault", "GridError", "InvalidBarrier", "KernelFault", "KernelLabError", "LayoutError",
    "MachineError", "MissingArguments", "NoGpu", "NoGrid", "NoSuchStage", "NoSuchStep",
    "NotRecorded", "Occurrence", "OptionError", "OutOfBounds", "ProfileError", "ProgramId",
    "Severity", "SourcePosition", "TargetError", "UnsupportedOperation", "WaitingProgram",
    "WorkerError", "WorkerLost", "changes_between", "clipped", "compiled_at", "compiled_text",
    "file_in_traceback", "format_edited", "frame_at", "is_edited", "json_value", "keep_compiled",
    "label_file", "label_files_by", "nearest", "raise_at", "show_no_other_lines", "source_line",
    "source_lines", "suggestion", "visible",
]  # fmt: skip

# A traceback names an error by its module: all of them by the one that people import them from.
for _one in list(globals().values()):
    if isinstance(_one, type) and issubclass(_one, KernelLabError):
        _one.__module__ = __name__
del _one
