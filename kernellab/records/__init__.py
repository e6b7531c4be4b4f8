"""The data classes that every part of the lab shares:
plain facts, with no screen and no compiler in them.
"""

from __future__ import annotations

from kernellab.records.compilations import (
    Analyst,
    Capability,
    Compilation,
    CompilationProvider,
    ControlCodes,
    Instruction,
    Occupancy,
    Resources,
    SpillSite,
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
from kernellab.records.stages import (
    Chain,
    DeferredText,
    FunctionSource,
    Lines,
    PassRun,
    SourceMap,
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
