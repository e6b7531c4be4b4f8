"""The data classes that every package shares: plain facts without screen or compiler."""

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
