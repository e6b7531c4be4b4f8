"""The data classes that every part of the lab shares:
plain facts, with no screen and no compiler in them.
"""

from __future__ import annotations

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
