"""`kernellab.tune`: a sweep over a kernel's configs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields
from typing import Any, BinaryIO

import torch

from kernellab import triton_api
from kernellab.common.argument_checks import (
    LONGEST_SECONDS,
    check_flags,
    check_tolerance,
    is_whole,
)
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.cores import usable_cores
from kernellab.common.formatting import shown
from kernellab.common.system_faults import translated_system_faults
from kernellab.common.temporary import nameless_file, path_of
from kernellab.compiler.specialization.inductor_kernels import InductorKernel, as_triton_kernel
from kernellab.compiler.targets import local_target, parse_target
from kernellab.errors import ArgumentError, OptionError, nearest
from kernellab.interpreter.execution.grid import check_grid
from kernellab.launch.callbacks import called_with_a_dict, what_it_raised
from kernellab.launch.preparation import (
    Grid,
    apart_from_parameters,
    emulated_for,
    goes_to_gpu,
    innermost,
)
from kernellab.launch.right_results import Reference
from kernellab.records import Target
from kernellab.triton_api.shipping import pack
from kernellab.tuning.files.store import Store, contents_within, known_content
from kernellab.tuning.pool.arguments import Shipment
from kernellab.tuning.pool.assignments import Delivery, Job, Setup
from kernellab.tuning.pool.executor_pool import ExecutorPool
from kernellab.tuning.pool.gpus import chosen_gpus, this_machine
from kernellab.tuning.pool.local_pool import LocalPool, local_pool
from kernellab.tuning.pool.measuring import time_baseline
from kernellab.tuning.pool.pools import WorkerPool
from kernellab.tuning.results import registry
from kernellab.tuning.results.records import (
    INTERRUPTED,
    Candidate,
    Dropped,
    Machine,
    Outcome,
    Timing,
)
from kernellab.tuning.results.replaying import Recorded, recorded_sweeps, with_recorded_times
from kernellab.tuning.results.tuning import Tuning
from kernellab.tuning.sweep.calls import Calls, PreparedCall
from kernellab.tuning.sweep.course import Conduct, Entry, Sweep
from kernellab.tuning.sweep.describing import Amount, describe, given_work
from kernellab.tuning.sweep.expecting import expected_results
from kernellab.tuning.sweep.keys import Key, check_key_is_not_tried, checked_key
from kernellab.tuning.sweep.progress import progress_for
from kernellab.tuning.sweep.spaces import (
    Prune,
    Space,
    candidates,
    count_before_pruning,
)


@names_bad_arguments
def tune(
    kernel: Any,
    grid: Grid,
    *args: Any,
    space: Space | None = None,
    key: Key = None,
    prune: Prune | None = None,
    executor: Executor | None = None,
    reference: Reference | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    check: bool | None = None,
    bytes: Amount | None = None,
    flops: Amount | None = None,
    baselines: Mapping[str, Callable[[], Any]] | None = None,
    target: str | Target | None = None,
    gpus: str | int | Sequence[int] | None = None,
    workers: int | None = None,
    seconds: float = 30.0,
    cache: bool = True,
    progress: bool | None = None,
    recorded: Recorded | None = None,
    **keywords: Any,
) -> Tuning:
    """Compile, check and time a kernel with each of many configs.

    Configs compile in processes beside this one, several at a time. With CUDA tensors each is then
    run, compared and timed in a process of the GPU's own, on copies of the arguments; a config that
    hangs or crashes is dropped, and the sweep goes on. With tensors on the CPU, configs are
    compiled for the target and checked on the interpreter, and nothing is timed. With types
    ("*fp16:16") instead of values they are only compiled. The arguments stay as they are.

    Ctrl-C ends the sweep, and gives what it has found by then;
    the same call goes on from there, since outcomes are kept on disk.

    Args:
        kernel: of any kind; what an autotuner around it carries counts where no space is given.
        grid: one to three sizes, or a function from the parameters (by name) to them.
            None compiles only.
        args, keywords: the launch's arguments, without those of the configs.
        space: {"BLOCK": [128, 256], "num_warps": [4, 8]}, all combinations of them; or a list of
            triton.Config, or of dicts.
        key: names of the arguments by whose values `Tunings.apply` chooses among several sweeps;
            None takes that of an autotuner around the kernel.
        prune: a function that is called with one dict, all arguments by name and a config's values
            among them, and says whether to leave that config out: `lambda a: a["BLOCK"] > a["n"]`.
        executor: where configs are compiled and run, instead of processes of this machine: any
            `concurrent.futures.Executor`. Where its processes have GPUs, configs are timed there,
            wherever the arguments are.
        reference: right results by parameter, or a function that is called with the arguments as
            the kernel is, and gives them: `lambda x, y, z, n: {"z_ptr": x + y}`. None compares each
            config with the first that runs.
        rtol, atol: how far results may be apart, `atol + rtol * |expected|`; by default this goes
            by the dtype (docs/tuning.md).
        check: whether to compare results. None does on a GPU; on the CPU where the interpreter
            takes less than 20 seconds for all.
        bytes, flops: what a launch moves and computes, for GB/s and TFLOP/s; or functions that are
            called with one dict, all arguments by name: `lambda a: 12 * a["n"]`. None counts them.
        baselines: functions that compute the same in other ways, timed on the GPU of this process:
            {"torch": lambda: x + y}.
        target: for tensors on the CPU or types, the GPU to compile for; None means the one that a
            launch would emulate.
        gpus: numbers of the GPUs to time on, one process each, or "all"; None means the one that
            holds the arguments.
        workers: processes that compile; None means a core each, with one left for every GPU.
        seconds: how long one config may take to compile, and to run.
        cache: whether to take what is known from earlier sweeps, and to keep what this one finds.
        progress: whether to say how far it is; None does in a notebook and in a terminal, unless
            KERNELLAB_PROGRESS is 0.
        recorded: a saved sweep of the same launch, whose times stand in where there is no GPU: the
            same call then shows a GPU's times on a laptop, and is live on a GPU.

        A name that is also a parameter of the kernel is the parameter,
        unless that is given by position.

    Returns:
        The Tuning.

    Raises:
        ArgumentError: nothing to try, no grid, a key that is no argument, arguments that do not
            fit, results in `reference` that fit no argument, a function of the user's that fails.
        ArchiveError: the file of a recorded sweep cannot be read.
        GridError: a grid that no launch has.
        OptionError: a name, of a config's or of the launch's, that is neither a
            parameter nor an option.
        TargetError: no such target.
    """
    given = _TuneOptions(
        space, key, prune, executor, reference, rtol, atol, check, bytes, flops, baselines,
        target, gpus, workers, seconds, cache, progress, recorded,
    )  # fmt: skip
    kernel = as_triton_kernel(kernel)
    own, keywords = apart_from_parameters(given, kernel, args, keywords)
    if grid is None and isinstance(inside := innermost(kernel), InductorKernel):
        grid = inside.own_grid
    tuning = _tuned(kernel, grid, args, keywords, own)
    registry.remember(kernel, tuning)
    return tuning


@dataclass(frozen=True)
class _TuneOptions:
    """What `tune` itself is told; see there."""

    space: Any = None
    key: Any = None
    prune: Any = None
    executor: Any = None
    reference: Any = None
    rtol: Any = None
    atol: Any = None
    check: Any = None
    bytes: Any = None
    flops: Any = None
    baselines: Any = None
    target: Any = None
    gpus: Any = None
    workers: Any = None
    seconds: Any = 30.0
    cache: Any = True
    progress: Any = None
    recorded: Any = None


def _tuned(
    kernel: Any, grid: Grid, args: Sequence[Any], keywords: Mapping[str, Any], own: _TuneOptions
) -> Tuning:
    """The sweep of a launch, as `tune` makes it."""
    started = time.monotonic()
    plain = innermost(kernel)
    _check_options(own)
    check_tolerance("rtol", own.rtol)
    check_tolerance("atol", own.atol)
    _check_grid(grid)
    names = checked_key(kernel, own.key, args, keywords)
    place = _place(kernel, args, keywords, own.target, own.executor, own.gpus)
    replayed = None if own.recorded is None or place.has_gpu else recorded_sweeps(own.recorded)
    _check_keywords(plain, place.target, keywords)
    found = candidates(kernel, own.space, place.target, args, keywords)
    check_key_is_not_tried(names, found)
    given = {**dict(zip(plain.arg_names, args)), **keywords}
    kept = _pruned(found, own.prune, given)
    runs = place.has_gpu or own.check is not False
    calls = Calls(
        kernel, grid, args, keywords, place.target, ships=runs, estimates=not place.has_gpu
    )
    prepared = calls.prepare_all(kept)
    said = given_work(own.bytes, own.flops, prepared)
    expected = expected_results(own.reference, plain, args, keywords)
    conduct = Conduct(
        job=pack(Job(plain, place.target, own.rtol, own.atol, place.machine.triton)),
        check=(own.check if own.check is not None or not place.has_gpu else True),
        measure=place.has_gpu,
        seconds=own.seconds,
    )
    alike = (own.rtol, own.atol, *_standard(kept, expected))
    plan = _Plan(plain, place, kept, prepared, calls, conduct, expected, alike)
    outcomes, notes = _swept(plan, own.workers, own.cache, own.progress)
    timed, untimed = _timed_baselines(own.baselines or {}, outcomes) if place.gpus else ({}, [])
    tuning = describe(
        kernel,
        place.target,
        kept,
        prepared,
        outcomes,
        key={name: given.get(name) for name in names},
        said=said,
        machine=place.machine,
        baselines=timed,
        pruned=count_before_pruning(kernel, own.space, found) - len(kept),
        notes=(*notes, *untimed),
        seconds=time.monotonic() - started,
    )
    return tuning if replayed is None else with_recorded_times(tuning, replayed)


_PRUNING = "prune=lambda a: a['BLOCK'] > a['n']"


def _check_options(own: _TuneOptions) -> None:
    """What is found out now does not end a sweep that has been running for minutes."""
    executor, seconds, workers, prune = own.executor, own.seconds, own.workers, own.prune
    if executor is not None and not isinstance(executor, Executor):
        raise ArgumentError(
            f"executor={shown(executor)} is no concurrent.futures.Executor",
            advice="A Dask Client gives one: client.get_executor().",
        )
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= LONGEST_SECONDS:
        raise ArgumentError(
            f"seconds={shown(seconds)} is no time that a config may take",
            advice="30 is the default.",
        )
    if workers is not None and not (is_whole(workers) and 1 <= workers <= _MOST_WORKERS):
        raise ArgumentError(
            f"workers={shown(workers)} is no number of processes that compile",
            advice=f"Give a number from 1 to {_MOST_WORKERS:,}.",
        )
    check_flags(cache=own.cache)
    for name, value in (("check", own.check), ("progress", own.progress)):
        if value is not None:
            check_flags(**{name: value})
    if prune is not None and not callable(prune):
        raise ArgumentError(
            f"prune is a {type(prune).__name__}, and a function decides about each config",
            advice=f"As in {_PRUNING}.",
        )
    _check_baselines(own.baselines)


_MOST_WORKERS = 1024
"""Each is a process that holds torch: more than any machine has cores."""


def _check_baselines(baselines: Any) -> None:
    form = 'As in baselines={"torch": lambda: x + y}.'
    if baselines is not None and not isinstance(baselines, Mapping):
        raise ArgumentError("baselines are functions by name", advice=form)
    for name, run in (baselines or {}).items():
        if not callable(run):
            raise ArgumentError(
                f"the baseline {name!r} is a {type(run).__name__}, and a function is timed",
                advice=form,
            )


def _check_grid(grid: Grid) -> None:
    """Refuse what is wrong with the grid of every config.

    Raises:
        ArgumentError: it is no grid.
        GridError: of a size that no launch has.
    """
    sizes: Any = grid
    if sizes is None or callable(sizes):
        return
    is_number = hasattr(sizes, "__index__") and not getattr(sizes, "shape", ())
    if isinstance(sizes, str) or not (is_number or isinstance(sizes, Sequence)):
        raise ArgumentError(
            f"the grid is a {type(sizes).__name__}: it must be one to three sizes, a function from "
            "the parameters to them, or None to compile only",
            advice=(
                "It comes after the kernel and before the arguments: kernellab.tune(add, (64,), x, "
                "y, z, n, ...)."
            ),
        )
    check_grid(grid, {})


def _timed_baselines(
    baselines: Mapping[str, Callable[[], Any]], outcomes: Mapping[int, Outcome]
) -> tuple[dict[str, Timing], list[str]]:
    """The baselines' times, taken as the configs' were, and what is to be said of those
    that have none: the sweep is worth keeping all the same.
    """
    method = next((one.timing.method for one in outcomes.values() if one.timing), None)
    times: dict[str, Timing] = {}
    notes = []
    try:
        for name, run in baselines.items():
            try:
                times[name] = time_baseline(run, method)
            except Exception as error:
                notes.append(f"the baseline {name!r} has no time: {type(error).__name__}: {error}")
    except KeyboardInterrupt:
        left = ", ".join(name for name in baselines if name not in times)
        notes.append(f"{INTERRUPTED}: no time was taken of the baselines {left}")
    return times, notes


# Where


class _Place:
    """Where a sweep compiles and runs."""

    def __init__(
        self,
        target: Target,
        machine: Machine,
        gpus: tuple[int, ...] = (),
        pool: WorkerPool | None = None,
    ) -> None:
        self.target = target
        self.machine = machine
        self.gpus = gpus
        """Of this machine."""
        self.pool = pool

    @property
    def has_gpu(self) -> bool:
        return bool(self.machine.gpu)


def _place(
    kernel: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    target: str | Target | None,
    executor: Executor | None,
    gpus: str | int | Sequence[int] | None,
) -> _Place:
    wanted = None if target is None else parse_target(target)
    if executor is not None:
        pool = ExecutorPool(executor)
        machine, theirs = pool.machine()
        _check_target(wanted, theirs)
        return _Place(theirs or wanted or emulated_for(kernel), machine, pool=pool)
    if not _on_gpu(innermost(kernel), args, keywords):
        if gpus is not None:
            raise ArgumentError(
                f"gpus={gpus!r} is for tensors on a GPU, and these are not",
                advice="Move them there: x.cuda().",
            )
        return _Place(wanted or emulated_for(kernel), this_machine(None))
    local = local_target()
    assert local is not None
    _check_target(wanted, local)
    numbers = chosen_gpus(gpus, _device_of(args, keywords))
    return _Place(local, this_machine(numbers[0]), numbers)


def _check_target(wanted: Target | None, found: Target | None) -> None:
    if wanted is not None and found is not None and wanted != found:
        raise ArgumentError(
            f"the configs would run on {found}, so nothing can be tuned for {wanted}",
            advice="Leave the target out; or give types instead of values, to compile only.",
        )


def _check_keywords(kernel: Any, target: Target, keywords: Mapping[str, Any]) -> None:
    """A wrong name in the launch itself is no config's fault."""
    known = [*kernel.arg_names, *triton_api.option_names(target)]
    for name in keywords:
        if name not in known:
            tune_options = [one.name for one in fields(_TuneOptions)]
            close = nearest(name, [*known, *tune_options])
            raise OptionError(
                f"{name!r} is neither a parameter of {kernel.__name__!r}, nor an option of "
                f"{target}, nor of kernellab.tune",
                advice=f"{close} Its parameters are {', '.join(kernel.arg_names)}.".lstrip(),
                position=triton_api.definition_of(kernel),
            )


def _on_gpu(kernel: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    values = (*args, *keywords.values())
    if any(isinstance(value, str) and value.startswith("*") for value in values):
        return False
    return goes_to_gpu(kernel, args, keywords)


def _device_of(args: Sequence[Any], keywords: Mapping[str, Any]) -> int:
    for value in (*args, *keywords.values()):
        tensor = getattr(value, "base", value)
        if isinstance(tensor, torch.Tensor) and tensor.device.type == "cuda":
            return tensor.device.index or 0
    return 0


def _local_pool(place: _Place, workers: int | None) -> LocalPool:
    # Of one size for all sweeps: a pool of another size would have to start anew.
    # Only those that are needed start.
    return local_pool(workers or max(1, usable_cores() - len(place.gpus)), place.gpus)


# Configs on their way


def _pruned(
    found: Sequence[Candidate], prune: Prune | None, given: Mapping[str, Any]
) -> list[Candidate]:
    if prune is None:
        return list(found)
    kept = [one for one in found if not _is_pruned(prune, one, given)]
    if not kept:
        raise ArgumentError(
            f"prune leaves out all {len(found)} configs",
            advice=(
                "It is called with one dict of all arguments, and says whether to leave a config "
                f"out: {_PRUNING}."
            ),
        )
    return kept


def _is_pruned(prune: Prune, one: Candidate, given: Mapping[str, Any]) -> bool:
    names = {**given, **one.values}
    try:
        return bool(prune(names))
    except Exception as error:
        raise ArgumentError(
            what_it_raised(f"prune, asked about {one},", error),
            advice=called_with_a_dict(prune, names, _PRUNING),
        ) from error


@dataclass(frozen=True)
class _Plan:
    """What a sweep is to do, all of it checked."""

    kernel: Any
    """The JIT function."""
    place: _Place
    configs: Sequence[Candidate]
    prepared: Sequence[PreparedCall | Dropped]
    """The launch of each config."""
    calls: Calls
    conduct: Conduct
    expected: Shipment | None
    alike: tuple[Any, ...]
    """What every outcome depends on, beside its config, kernel and machine."""


def _swept(
    plan: _Plan, workers: int | None, cache: bool, progress: bool | None
) -> tuple[dict[int, Outcome], Sequence[str]]:
    """The outcomes by config, and what is to be said of the sweep."""
    place, conduct = plan.place, plan.conduct
    with ExitStack() as stack:
        triton_api.check_globals(plan.kernel)
        pool = place.pool or _local_pool(place, workers)
        entries = list(_entries(plan, _Sender(stack, inline=place.pool is not None)))
        content = known_content(plan.kernel) if cache else None
        versions = (repr(place.machine), triton_api.compiler_key(place.target))
        about = (content, place.target, *versions, conduct.measure, *plan.alike)
        told = progress_for(plan.kernel.__name__, progress, len(entries))
        sweep = Sweep(entries, pool, conduct, Store(content and about), told)
        outcomes = sweep.outcomes()
        if isinstance(pool, LocalPool) and not pool.is_stopped:
            pool.release()
    return outcomes, sweep.notes


def _standard(configs: Sequence[Candidate], expected: Shipment | None) -> tuple[Any, ...]:
    """What results are compared with."""
    if expected is not None:
        return (expected.digest,)
    first = configs[0].values
    return first, *contents_within(first.values())


class _Sender:
    """Makes arguments available to the processes:
    in files of this machine without a name, or inside the calls.
    """

    def __init__(self, stack: ExitStack, inline: bool) -> None:
        self._stack = stack
        self._inline = inline

    def send(self, shipment: Shipment) -> Delivery:
        if self._inline:
            return Delivery(shipment.digest, shipment=shipment)
        file = nameless_file(shipment.size)
        self._stack.callback(_closed, file)
        with (
            translated_system_faults("The arguments cannot be written for the sweep's processes"),
            ThreadPoolExecutor(1) as beside,  # Writing takes as long as making the digest.
        ):
            written = beside.submit(shipment.write, file)
            digest = shipment.digest
            written.result()
        return Delivery(digest, path_of(file))


def _closed(file: BinaryIO) -> None:
    with suppress(OSError):  # of what could not be written before either
        file.close()


def _entries(plan: _Plan, sender: _Sender) -> Iterator[Entry]:
    """What each config needs on its way, in order."""
    calls, expected, prepared = plan.calls, plan.expected, plan.prepared
    shared = None if calls.shared is None else sender.send(calls.shared)
    are_run = any(isinstance(one, PreparedCall) and one.shipment for one in prepared) or shared
    results = sender.send(expected) if expected is not None and are_run else None
    for number, (candidate, one) in enumerate(zip(plan.configs, prepared)):
        if isinstance(one, Dropped):
            yield Entry(number, candidate, b"", None, (), one)
            continue
        arguments = shared if one.shipment is None else sender.send(one.shipment)
        setup = None
        if arguments is not None:
            gpu = plan.place.machine.gpu
            setup = Setup(plan.conduct.job, arguments, results, None, None, gpu)
        digest = "" if arguments is None else arguments.digest
        task = one.task
        functions = contents_within(task.specialization.constants.values())
        about = (task.specialization, sorted(task.options.items()), task.grid, digest, *functions)
        yield Entry(number, candidate, pack(task), setup, about)
