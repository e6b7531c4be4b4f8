"""The data classes that every part of the lab shares:
plain facts, with no screen and no compiler in them.
"""

from __future__ import annotations

from kernellab.records.compilations import (
    Analyst,
    Capability,
    Compilation,
    CompilationProvider,
)
from kernellab.records.launches import (
    Backend,
    BoundLaunch,
    Launch,
    Origin,
    Path,
    Run,
    Specialization,
    Subject,
    Target,
)
from kernellab.records.machine_code import (
    ControlCodes,
    Instruction,
    Occupancy,
    Resources,
    SpillSite,
)
from kernellab.records.source_maps import Chain, Lines, SourceMap
from kernellab.records.stages import (
    DeferredText,
    FunctionSource,
    PassRun,
    Stage,
    Stages,
    StoredText,
)

__all__ = [
    "Analyst",
    "Backend",
    "BoundLaunch",
    "Capability",
    "Chain",
    "Compilation",
    "CompilationProvider",
    "ControlCodes",
    "DeferredText",
    "FunctionSource",
    "Instruction",
    "Launch",
    "Lines",
    "Occupancy",
    "Origin",
    "PassRun",
    "Path",
    "Resources",
    "Run",
    "SourceMap",
    "Specialization",
    "SpillSite",
    "Stage",
    "Stages",
    "StoredText",
    "Subject",
    "Target",
]
