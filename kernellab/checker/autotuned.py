"""Findings on autotuners, tried: a launch goes through the trials of all configs on one memory, as
an autotuner makes them, as it is and with restore_value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernellab.checker.fixes import TRIED, key_of
from kernellab.checker.records import Finding, Findings
from kernellab.common.text import counted, element_text, number_text
from kernellab.errors import KernelLabError
from kernellab.launch.argument_copies import copied, tensors_in
from kernellab.launch.autotuners import restoring
from kernellab.launch.records import Difference
from kernellab.launch.results import Tolerances, compare
from kernellab.launch.tile_kernel import run
from kernellab.records import BoundLaunch
from kernellab.triton_api import Autotuner, Config, JITFunction

_MOST_CONFIGS = 8
"""The most configs that are tried: what the first few leave is enough."""


@dataclass(frozen=True)
class TunedLaunch:
    """A launch of an autotuned kernel.

    Attributes:
        launch: with the autotuner.
        kernel: the plain kernel.
        values: its arguments by parameter, with the constants of the first config.
        examine: checks the launch with another kernel.
    """

    launch: BoundLaunch
    kernel: Any
    values: Mapping[str, Any]
    examine: Callable[[Any], Findings]

    def completed(self, findings: Findings) -> Findings:
        """Return the findings with what the trials leave in an argument, and with restore_value if
        that helps.
        """
        tuner = self.launch.kernel
        if not isinstance(tuner, Autotuner) or not isinstance(tuner.fn, JITFunction):
            return findings
        known = tuple(
            self._tried(finding, findings, tuner) if finding.kind == "autotune" else finding
            for finding in findings.findings
        )
        return replace(findings, findings=known)

    def _tried(self, finding: Finding, before: Findings, tuner: Autotuner) -> Finding:
        name = finding.argument
        if not isinstance(self.values.get(name), torch.Tensor):
            return finding
        try:
            apart = self._after_trials(tuner, name)
            kept = restoring(tuner, name)
            helps = self._after_trials(kept, name) is None
            after = self.examine(kept).findings
        except KernelLabError:  # of a config that does not compile, or leaves a tensor
            return finding
        if apart is None:
            return replace(finding, severity="note", why=_AS_BEFORE)
        number = counted(min(len(tuner.configs), _MOST_CONFIGS), "config")
        effect = (
            f"After a trial of {number}, the launch leaves "
            f"{number_text(apart.actual)} in {element_text(name, apart.index)}, and alone it "
            f"leaves {number_text(apart.expected)}."
        )
        finding = replace(finding, why=effect)
        remaining, known = {*map(key_of, after)}, {*map(key_of, before.findings)}
        if not helps or key_of(finding) in remaining or not remaining <= known:
            return finding
        advice = f'Pass restore_value=["{name}"] to triton.autotune.'
        if name in tuner.reset_to_zero:
            advice = f'Pass restore_value=["{name}"] in place of reset_to_zero.'
        return replace(finding, advice=f"{advice} {TRIED}", verified=True)

    def _after_trials(self, tuner: Autotuner, name: str) -> Difference | None:
        """Return where the trials of all configs change what the launch leaves in an argument."""
        configs = tuner.configs[:_MOST_CONFIGS]
        alone, tuned = copied(self.values), copied(self.values)
        self._run(configs[0], alone)
        for config in configs:
            tuner.pre_hook(tuned)
            self._run(config, tuned)
            tuner.post_hook(tuned, exception=None)
        tuner.pre_hook(tuned, reset_only=True)
        self._run(configs[0], tuned)
        expected, actual = (dict(tensors_in(values))[name] for values in (alone, tuned))
        return next(compare({name: actual}, {name: expected}, Tolerances()), None)

    def _run(self, config: Config, values: Mapping[str, Any]) -> None:
        run(BoundLaunch(self.kernel, self.launch.grid, (), {**values, **config.kwargs}))


_AS_BEFORE = "With the values of this launch, the trials leave the same results as one launch."
