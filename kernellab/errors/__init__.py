"""Diagnostics, what is said of a kernel, a launch or this machine; and the errors that
KernelLab raises on purpose.
"""

from kernellab.errors.diagnostics import (
    Change,
    Diagnostic,
    Severity,
    changes_between,
    json_value,
)
from kernellab.errors.faults import (
    Deadlock,
    KernelFault,
    Occurrence,
    OutOfBounds,
    ProgramId,
    WaitingProgram,
)
from kernellab.errors.kinds import (
    ArchiveError,
    ArgumentError,
    CompilationStopped,
    CompileError,
    GpuFault,
    GridError,
    KernelLabError,
    LayoutError,
    MachineError,
    MissingArguments,
    NoGpu,
    NoGrid,
    NoSuchStage,
    NoSuchStep,
    NotRecorded,
    OptionError,
    ProfileError,
    TargetError,
    UnsupportedOperation,
    WorkerError,
    WorkerLost,
    clipped,
)
from kernellab.errors.positions import (
    SourcePosition,
    label_file,
    label_files_by,
)
from kernellab.errors.sources import (
    CompiledLines,
    compiled_at,
    format_edited,
    is_edited,
    keep_compiled,
    source_line,
    source_lines,
)
from kernellab.errors.suggestions import (
    nearest,
    suggestion,
)
from kernellab.errors.tracebacks import (
    file_in_traceback,
    frame_at,
    raise_at,
)

__all__ = [
    "ArchiveError",
    "ArgumentError",
    "Change",
    "CompilationStopped",
    "CompileError",
    "CompiledLines",
    "Deadlock",
    "Diagnostic",
    "GpuFault",
    "GridError",
    "KernelFault",
    "KernelLabError",
    "LayoutError",
    "MachineError",
    "MissingArguments",
    "NoGpu",
    "NoGrid",
    "NoSuchStage",
    "NoSuchStep",
    "NotRecorded",
    "Occurrence",
    "OptionError",
    "OutOfBounds",
    "ProfileError",
    "ProgramId",
    "Severity",
    "SourcePosition",
    "TargetError",
    "UnsupportedOperation",
    "WaitingProgram",
    "WorkerError",
    "WorkerLost",
    "changes_between",
    "clipped",
    "compiled_at",
    "file_in_traceback",
    "format_edited",
    "frame_at",
    "is_edited",
    "json_value",
    "keep_compiled",
    "label_file",
    "label_files_by",
    "nearest",
    "raise_at",
    "source_line",
    "source_lines",
    "suggestion",
]

# A traceback names an error by its module: all of them by the one that people import them from.
for _one in list(globals().values()):
    if isinstance(_one, type) and issubclass(_one, KernelLabError):
        _one.__module__ = __name__
del _one
