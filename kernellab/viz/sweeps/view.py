"""The view of sweeps: plots and table, linked, and the IR explorer of every config
that somebody looks at.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from kernellab.common.arguments import at_most, is_whole
from kernellab.common.progress import ProgressBar
from kernellab.common.text import shown
from kernellab.compiler.compare import compare
from kernellab.errors import ArgumentError, CompileError
from kernellab.records import Compilation
from kernellab.tuning.kernel_source import how_to_open
from kernellab.tuning.plot_data import AGAINST, KINDS, check_kind, default_kind
from kernellab.tuning.tuning import Tuning
from kernellab.tuning.tunings import Tunings, beside
from kernellab.viz.explorer.data import IrView, lightened
from kernellab.viz.explorer.sides import explore_compilation, explore_failure, noted, pass_pairs
from kernellab.viz.kit.data import as_json, packed
from kernellab.viz.kit.requests import Answer, Handler
from kernellab.viz.kit.view import View, view_of
from kernellab.viz.sweeps.card import still_card, still_card_of_all
from kernellab.viz.sweeps.data import ConfigPair, OpenedConfig, TuningView, sizes_data, sweeps_data

_EMBEDDED = 750_000
"""Bytes of packed explorers that a page or a widget holds, all together;
of more, the largest texts of passes are left out."""

_SENT = 1_000_000
"""Bytes of an explorer that the kernel sends at once."""

_EXPLORERS_KEPT = 4
"""Each has every text, some of megabytes."""

SIZES = "sizes"
"""The kind of plot that several sweeps have besides those of one."""


def _numbers(compilations: Any) -> list[int]:
    numbers = at_most(compilations)
    if numbers is None or not all(map(is_whole, numbers)):
        raise ArgumentError(
            f"compilations must be a list of numbers of configs, such as [0, 3], got "
            f"{shown(compilations)}."
        )
    return numbers


class SweepView(View):
    """Sweeps to explore. The live view has this kernel compile the configs that a reader opens;
    a page holds some.
    """

    def __init__(
        self,
        title: str,
        plot: str,
        groups: Sequence[Tunings],
        compilations: Sequence[tuple[int, int]] | None,
    ) -> None:
        """
        Args:
            title: one line.
            plot: the kind that is shown first.
            groups: the sweeps, by kernel.
            compilations: (place of a sweep, number of a config) whose IR a page holds; None for the
                fastest and those that were compiled already.

        Raises:
            ArgumentError: no such config, or its kernel is not known.
        """
        super().__init__(title, self._live_data, self._cards)
        self._plot = plot
        self._groups = groups
        self._sweeps = [tuning for group in groups for tuning in group]
        self._configs = Configs(self._sweeps)
        self._chosen = (
            None
            if compilations is None
            else [self._configs.place(*compilation) for compilation in compilations]
        )

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return {
            "run source": self._configs.source_answer,
            "config": self._configs.explorer_answer,
            "config text": self._configs.text_answer,
            "pair": self._configs.pair_answer,
        }

    def _bare_data(self) -> TuningView:
        sizes, problem = (
            ([], "") if len(self._sweeps) == 1 else sizes_data(self._groups, self._sweeps)
        )
        plot = self._plot if sizes or self._plot != SIZES else KINDS[0]
        return sweeps_data(self.title, plot, self._sweeps, sizes, [problem] if problem else [])

    def _live_data(self) -> TuningView:
        chosen = self._configs.compiled() if self._chosen is None else self._chosen
        return self._configs.opened(self._bare_data(), chosen)

    def packed_data(self) -> bytes:
        """Return what a page holds, which has no kernel to compile more."""
        chosen = self._configs.worth_a_page() if self._chosen is None else self._chosen
        return packed(self._configs.opened(self._bare_data(), chosen))

    def _cards(self) -> list[Any]:
        if len(self._sweeps) == 1:
            return [still_card(self._sweeps[0])]
        return [still_card_of_all(group) for group in self._groups]

    def still_html(self) -> str:
        """The card, and the plot as a picture."""
        return super().still_html() + self._picture()

    def _picture(self) -> str:
        from kernellab.viz.sweeps import figure  # with matplotlib, which takes a while

        try:
            if self._plot == SIZES:
                drawn = figure.tunings_plot(self._groups[0], SIZES, others=self._groups[1:])
            else:
                drawn = figure.tuning_plot(self._sweeps[0], self._plot)
        except ArgumentError:  # nothing was timed, or nothing varies: the card says so
            return ""
        alternative = figure.ALTERNATIVES[self._plot]
        if self._plot in AGAINST and not self._sweeps[0].is_timed:
            alternative = f"{AGAINST[self._plot]}, of each config"
        source = base64.b64encode(drawn.png()).decode("ascii")
        return (
            "\n"
            f'<img alt="{alternative}" style="max-width:100%" src="data:image/png;base64,{source}">'
        )


@view_of.register
def tuning_view(
    tuning: Tuning, plot: str | None = None, compilations: Sequence[int] | None = None
) -> SweepView:
    """The view of one sweep; `Tuning.show` explains the arguments."""
    plot = default_kind(tuning) if plot is None else plot
    check_kind(plot)
    numbers = None if compilations is None else _numbers(compilations)
    chosen = None if numbers is None else [(0, number) for number in numbers]
    return SweepView(tuning.kernel, plot, [Tunings([tuning])], chosen)


@view_of.register
def tunings_view(
    tunings: Tunings,
    plot: str = SIZES,
    others: Sequence[Tunings] = (),
    compilations: Sequence[tuple[int, int]] = (),
) -> SweepView:
    """The view of several sweeps; `Tunings.show` explains the arguments."""
    groups = [group for group in (tunings, *beside(others)) if len(group)]
    if not groups:
        raise ArgumentError("there is no sweep to show")
    check_kind(plot, (*KINDS, SIZES))
    kernels = ", ".join(dict.fromkeys(group[0].kernel for group in groups))
    return SweepView(kernels, plot, groups, _pairs(compilations))


def _pairs(compilations: Any) -> list[tuple[int, int]]:
    items = at_most(compilations)
    if items is None or not all(
        isinstance(item, tuple | list) and len(item) == 2 and all(map(is_whole, item))
        for item in items
    ):
        raise ArgumentError(
            "compilations must be pairs of the place of a sweep and the number of a config, "
            f"such as [(0, 3)], got {shown(compilations)}."
        )
    return items


class Configs:
    """The configs of several sweeps, counted through, and what the IR explorer draws of them."""

    def __init__(self, sweeps: Sequence[Tuning]) -> None:
        self._sweeps = list(sweeps)
        self._places = [
            (number, trial) for number, sweep in enumerate(sweeps) for trial in sweep.trials
        ]
        self._explorers: dict[int, IrView] = {}

    def place(self, sweep: int, number: int) -> int:
        """The place of a config among all.

        Raises:
            ArgumentError: there is no such sweep or config, or its kernel is not known.
        """
        if not 0 <= sweep < len(self._sweeps):
            raise ArgumentError(f"there is no sweep {sweep!r}: there are {len(self._sweeps)}")
        tuning = self._sweeps[sweep]
        trial = tuning.trial(number)
        if not tuning.knows_kernel:
            raise ArgumentError(
                f"this sweep of {tuning.kernel!r} was read from a file, which does not hold the "
                f"kernel, so config {number} cannot be compiled",
                advice=how_to_open(tuning.kernel, tuning.source),
            )
        before = sum(len(earlier.trials) for earlier in self._sweeps[:sweep])
        return before + tuning.trials.index(trial)

    def compiled(self) -> list[int]:
        """The places of configs that were compiled already."""
        return [
            place
            for place, (sweep, trial) in enumerate(self._places)
            if trial.number in self._sweeps[sweep].compiled
        ]

    def worth_a_page(self) -> list[int]:
        """The fastest of an only sweep, and what was compiled already."""
        chosen = self.compiled()
        sweep = self._sweeps[0]
        if len(self._sweeps) == 1 and sweep.knows_kernel:
            standing = sweep.ranked or [trial for trial in sweep.trials if not trial.is_dropped]
            chosen += [sweep.trials.index(trial_number) for trial_number in standing[:1]]
        return sorted(set(chosen))

    def opened(self, view: TuningView, chosen: Sequence[int]) -> TuningView:
        """The view with the explorers of some configs, and what comparing
        each two of them takes.
        """
        with ProgressBar(f"compile {view.title} to show it", len(chosen), "configs") as work:
            return self._opened(view, list(dict.fromkeys(chosen)), work)

    def _opened(self, view: TuningView, places: Sequence[int], work: ProgressBar) -> TuningView:
        tab_id = _EMBEDDED // max(1, len(places))
        kept = []
        for part, place in enumerate(places, 1):
            kept.append(OpenedConfig(place, part, lightened(self._explorer(place), tab_id)))
            work.advance()
        pairs = [
            self._pair(left.config, right.config)
            for left, right in itertools.combinations(kept, 2)
            if self._compiles(left.config) and self._compiles(right.config)
        ]
        return dataclasses.replace(view, opened=tuple(kept), pairs=tuple(pairs))

    def source_answer(self, request: Mapping[str, Any]) -> Answer:
        """The answer to the request "run source", which a reader has agreed to: the kernel of a
        sweep, and of those beside it with the same source, is made of what their file holds.
        """
        source = self._sweeps[int(request["sweep"])].source
        same = [number for number, sweep in enumerate(self._sweeps) if sweep.source == source]
        unknown = [number for number in same if not self._sweeps[number].knows_kernel]
        if unknown and source is not None:
            kernel = source.kernel_again()
            for number in unknown:
                self._sweeps[number] = self._sweeps[number].with_kernel(kernel)
        return Answer({"sweeps": same})

    def explorer_answer(self, request: Mapping[str, Any]) -> Answer:
        """The answer to the request "config"."""
        return Answer({}, [lightened(self._explorer(int(request["config"])), _SENT)])

    def text_answer(self, request: Mapping[str, Any]) -> Answer:
        """The answer to the request "config text": one that was too large to send
        with the explorer.
        """
        side = self._explorer(int(request["config"])).sides[0]
        return Answer({"text": side.texts[request["text"]].content})

    def pair_answer(self, request: Mapping[str, Any]) -> Answer:
        """The answer to the request "pair"."""
        return Answer(
            {"pairs": as_json(self._pair(int(request["left"]), int(request["right"])).pairs)}
        )

    def _compilation(self, place: int) -> Compilation:
        sweep, trial = self._places[place]
        return self._sweeps[sweep].compilation(trial.number)

    def _compiles(self, place: int) -> bool:
        try:
            self._compilation(place)
        except CompileError:
            return False
        return True

    def _explorer(self, place: int) -> IrView:
        """A config's explorer; of one that does not compile, up to the pass that failed."""
        if place not in self._explorers:
            while len(self._explorers) >= _EXPLORERS_KEPT:
                del self._explorers[next(iter(self._explorers))]
            try:
                explorer = explore_compilation(self._compilation(place))
            except CompileError as error:
                explorer = explore_failure(error)
            sweep = self._sweeps[self._places[place][0]]
            sides = tuple(noted(side, sweep.recompiled) for side in explorer.sides)
            self._explorers[place] = dataclasses.replace(explorer, sides=sides)
        return self._explorers[place]

    def _pair(self, left: int, right: int) -> ConfigPair:
        compared = compare(self._compilation(left), self._compilation(right))
        return ConfigPair(left, right, pass_pairs(compared))
