"""`kernellab.tune`: a sweep over a kernel's configs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import prod
from typing import Any, BinaryIO

import torch

from kernellab import triton_api
from kernellab.common.arguments import (
    LONGEST_SECONDS,
    check_flags,
    check_tolerance,
    is_real,
    is_whole,
    keyword_only,
    plain_scalar,
)
from kernellab.common.system import nameless_file, path_of, translated_system_faults, usable_cores
from kernellab.common.text import called_with_a_dict, shown, what_it_raised
from kernellab.compiler.kernels import InductorKernel, as_triton_kernel
from kernellab.compiler.targets import local_target, parse_target
from kernellab.errors import ArgumentError, OptionError, nearest
from kernellab.interpreter.execution.grid import check_grid
from kernellab.launch.preparation import Grid, emulated_for, goes_to_gpu, innermost, takes_launch
from kernellab.launch.reference_results import Reference, right_results
from kernellab.records import BoundLaunch, Target
from kernellab.triton_api.kernel_contents import pack
from kernellab.tuning import tunings
from kernellab.tuning.assignments import Delivery, Job, Setup, Shipment, ship
from kernellab.tuning.configs import (
    Calls,
    Key,
    PreparedCall,
    Prune,
    Space,
    candidates,
    check_key_is_not_tried,
    checked_key,
    count_before_pruning,
)
from kernellab.tuning.files import Store, contents_within, known_content
from kernellab.tuning.records import INTERRUPTED, Candidate, Dropped, Outcome, SweepMachine, Timing
from kernellab.tuning.sweep import (
    ClusterPool,
    Conduct,
    Entry,
    LocalPool,
    Sweep,
    SweepProgress,
    WorkerPool,
    local_pool,
)
from kernellab.tuning.tuning import Tuning
from kernellab.tuning.tunings import Amount, Recorded
from kernellab.tuning.worker import chosen_gpus, this_machine, time_baseline


@takes_launch
def tune(
    launch: BoundLaunch,
    *,
    space: Space | None = None,
    key: Key = None,
    prune: Prune | None = None,
    executor: Any = None,
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
) -> Tuning:
    """Compile, check and time a kernel with each of many configs.

    Configs compile in separate processes, several at a time. With CUDA tensors, each config is then
    run, compared and timed in a process that owns the GPU, on copies of the arguments; a config
    that hangs or crashes is dropped, and the sweep continues. With tensors on the CPU, configs are
    compiled for the target and checked on the interpreter, and nothing is timed. With types
    ("*fp16:16") instead of values, configs are only compiled. The arguments do not change.

    Ctrl-C ends the sweep and returns the results so far. The same call later continues from there,
    since outcomes are kept on disk.

    Args:
        launch: kernel, grid, args and keywords as for `kernellab.run`, without the arguments that
            the configs give; or a bound launch. A grid of None compiles only. Without a space, the
            configs are those of the autotuner around the kernel.
        space: {"BLOCK": [128, 256], "num_warps": [4, 8]} for all combinations; or a list of
            triton.Config or of dicts.
        key: names of the arguments whose values `Tunings.apply` uses to choose among several
            sweeps; None takes the key of an autotuner around the kernel.
        prune: a function that returns whether to leave a config out. It is called with one dict of
            all arguments by name, including the config's: `lambda a: a["BLOCK"] > a["n"]`.
        executor: where configs are compiled and run instead of processes on this machine: a Dask
            client (`distributed.Client`). If its workers have GPUs, configs are timed there,
            wherever the arguments are.
        reference: expected results by parameter, or a function that returns them and is called with
            the kernel's arguments: `lambda x, y, z, n: {"z_ptr": x + y}`. None compares each config
            with the first one that runs.
        rtol, atol: tolerances of the results, `atol + rtol * |expected|`; None takes what
            rounding explains (docs/tolerances.md).
        check: whether to compare results. None compares them on a GPU, and on the CPU if the
            interpreter takes less than 20 seconds for all configs.
        bytes, flops: what a launch moves and computes, for GB/s and TFLOP/s; or functions that are
            called with one dict of all arguments: `lambda a: 12 * a["n"]`. None counts them.
        baselines: functions that compute the same in other ways, timed on the GPU of this process:
            {"torch": lambda: x + y}.
        target: for tensors on the CPU or types, the GPU to compile for; None means the one that a
            launch would emulate.
        gpus: numbers of the GPUs to time on, one process each, or "all"; None means the one that
            holds the arguments.
        workers: the number of processes that compile; None means one per core, minus one per GPU.
        seconds: how long one config may take to compile, and to run.
        cache: whether to reuse outcomes of earlier sweeps, and to keep those of this one.
        progress: whether to show progress; None shows it in a notebook and in a terminal, unless
            KERNELLAB_PROGRESS is 0.
        recorded: a saved sweep of the same launch, whose times are shown if there is no GPU: the
            same call then shows a GPU's times on a laptop, and measures on a GPU.

        A keyword that is also a parameter of the kernel is passed to the kernel, unless that
        parameter is already given by position.

    Returns:
        The Tuning.

    Raises:
        ArgumentError: there is nothing to try; the grid, the key, `reference` or an argument does
            not fit the kernel; or one of the user's functions fails.
        ArchiveError: the file of a recorded sweep cannot be read.
        GridError: no launch can have this grid.
        OptionError: a name of a config or of the launch is neither a parameter nor an option.
        TargetError: there is no such target.
    """
    started = time.monotonic()
    kernel, grid = as_triton_kernel(launch.kernel), launch.grid
    args, keywords, plain = launch.args, launch.keywords, innermost(kernel)
    if grid is None and isinstance(plain, InductorKernel):
        grid = plain.own_grid
    _check_options(executor, seconds, workers, prune, baselines)
    check_flags(cache=cache)
    optional = {"check": check, "progress": progress}
    check_flags(**{name: flag for name, flag in optional.items() if flag is not None})
    rtol, atol = check_tolerance("rtol", rtol), check_tolerance("atol", atol)
    _check_grid(grid)
    names = checked_key(kernel, key, args, keywords)
    place = _place(kernel, args, keywords, space, target, executor, gpus)
    replayed = None if recorded is None or place.has_gpu else tunings.recorded_sweeps(recorded)
    _check_keywords(plain, place.target, keywords)
    configs = candidates(kernel, space, place.target, args, keywords)
    check_key_is_not_tried(names, configs)
    given = {**dict(zip(plain.arg_names, args)), **keywords}
    kept = _pruned(configs, prune, given)
    runs = place.has_gpu or check is not False
    calls = Calls(kernel, grid, args, keywords, place.target, ships=runs, is_timed=place.has_gpu)
    prepared = calls.prepare_all(kept)
    work = tunings.work_given(bytes, flops, prepared)
    expected = None if reference is None else ship(right_results(reference, plain, args, keywords))
    conduct = Conduct(
        job=pack(Job(plain, place.target, rtol, atol, place.machine.triton)),
        check=(check if check is not None or not place.has_gpu else True),
        measure=place.has_gpu,
        seconds=seconds,
    )
    alike = (rtol, atol, *_standard(kept, expected))
    plan = _Plan(plain, place, kept, prepared, calls, conduct, expected, alike)
    outcomes, notes = _swept(plan, plain_scalar(workers), cache, progress)
    timed, untimed = _timed_baselines(baselines or {}, outcomes) if place.gpus else ({}, [])
    tuning = tunings.describe(
        kernel,
        place.target,
        kept,
        prepared,
        outcomes,
        key={name: given.get(name) for name in names},
        given_work=work,
        machine=place.machine,
        baselines=timed,
        pruned=count_before_pruning(kernel, space, configs) - len(kept),
        notes=(*notes, *untimed),
        seconds=time.monotonic() - started,
    )
    if replayed is not None:
        tuning = tunings.with_recorded_times(tuning, replayed)
    tunings.remember(kernel, tuning)
    return tuning


_PRUNING = "prune=lambda a: a['BLOCK'] > a['n']"


_MOST_WORKERS = 1024
"""Each is a process that holds torch: more than any machine has cores."""


def _check_options(executor: Any, seconds: Any, workers: Any, prune: Any, baselines: Any) -> None:
    """Check options before the sweep starts, not after minutes."""
    is_client = hasattr(executor, "scatter") and hasattr(executor, "get_executor")
    if executor is not None and not is_client:
        raise ArgumentError(
            f"executor must be a Dask client, got {shown(executor)}.",
            advice="Write executor=distributed.Client(address), for example.",
        )
    if not is_real(seconds) or not 0 < seconds <= LONGEST_SECONDS:
        raise ArgumentError(
            f"seconds must be a number above 0 and at most {LONGEST_SECONDS:,}, got "
            f"{shown(seconds)}.",
            advice="Remove seconds= for the default, 30.",
        )
    if workers is not None and not (is_whole(workers) and 1 <= workers <= _MOST_WORKERS):
        raise ArgumentError(
            f"workers must be an integer from 1 to {_MOST_WORKERS:,}, got {shown(workers)}.",
            advice="Remove workers= for one process per core.",
        )
    if prune is not None and not callable(prune):
        raise ArgumentError(
            f"prune must be a function, got {shown(prune)}.", advice=f"Write {_PRUNING}."
        )
    form = 'Write baselines={"torch": lambda: x + y}.'
    if baselines is not None and not isinstance(baselines, Mapping):
        raise ArgumentError(
            f"baselines must be a dict of functions by name, got {shown(baselines)}.", advice=form
        )
    for name, run in (baselines or {}).items():
        if not callable(run):
            raise ArgumentError(
                f"The baseline {name!r} must be a function, got {shown(run)}.", advice=form
            )


def _check_grid(grid: Grid) -> None:
    """Check the shared grid. Raises ArgumentError: not a grid; GridError: an impossible size."""
    sizes: Any = grid
    if sizes is None or callable(sizes):
        return
    is_number = hasattr(sizes, "__index__") and not getattr(sizes, "shape", ())
    if isinstance(sizes, str) or not (is_number or isinstance(sizes, Sequence)):
        raise ArgumentError(
            "The grid must be one to three sizes, a function of the parameters, or None "
            f"to compile only, got a {type(sizes).__name__}.",
            advice=(
                "Pass it after the kernel and before the arguments: kernellab.tune(add, (64,), x, "
                "y, z, n, ...)."
            ),
        )
    check_grid(grid, {})


def _timed_baselines(
    baselines: Mapping[str, Callable[[], Any]], outcomes: Mapping[int, Outcome]
) -> tuple[dict[str, Timing], list[str]]:
    """Return the baselines' times, measured as the configs', and notes on those that failed."""
    timings = (outcome.timing for outcome in outcomes.values())
    method = next((timing.method for timing in timings if timing is not None), None)
    times: dict[str, Timing] = {}
    notes = []
    try:
        for name, run in baselines.items():
            try:
                times[name] = time_baseline(run, method)
            except Exception as error:  # a baseline is a function of the user
                notes.append(f"the baseline {name!r} has no time: {type(error).__name__}: {error}")
    except KeyboardInterrupt:
        left = ", ".join(name for name in baselines if name not in times)
        notes.append(f"{INTERRUPTED}: the baselines {left} were not timed")
    return times, notes


@dataclass(frozen=True)
class _Place:
    """Where a sweep compiles and runs."""

    target: Target
    machine: SweepMachine
    gpus: tuple[int, ...] = ()
    """Of this machine."""
    pool: WorkerPool | None = None

    @property
    def has_gpu(self) -> bool:
        return bool(self.machine.gpu)


def _place(
    kernel: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    space: Any,
    target: str | Target | None,
    executor: Any,
    gpus: str | int | Sequence[int] | None,
) -> _Place:
    wanted = None if target is None else parse_target(target)
    if executor is not None:
        pool = ClusterPool(executor)
        values = space.values() if isinstance(space, Mapping) else [space]
        machine, theirs = pool.machine(
            prod(len(some) for some in values if isinstance(some, Sized))
        )
        _check_target(wanted, theirs)
        return _Place(theirs or wanted or emulated_for(kernel), machine, pool=pool)
    if not _on_gpu(innermost(kernel), args, keywords):
        if gpus is not None:
            raise ArgumentError(
                f"gpus={gpus!r} needs tensors on a GPU, but those of this launch are on the CPU.",
                advice="Move them to the GPU: x.cuda().",
            )
        return _Place(wanted or emulated_for(kernel), this_machine(None))
    local = local_target()
    assert local is not None
    _check_target(wanted, local)
    numbers = chosen_gpus(gpus, _device_of(args, keywords))
    return _Place(local, this_machine(numbers[0]), numbers)


def _check_target(wanted: Target | None, actual: Target | None) -> None:
    if wanted is not None and actual is not None and wanted != actual:
        raise ArgumentError(
            f"The target is {wanted}, but the configs would run on {actual}.",
            advice="Leave the target out, or pass types instead of values to compile only.",
        )


def _check_keywords(kernel: Any, target: Target, keywords: Mapping[str, Any]) -> None:
    """Check the names in the launch itself, for which no config is to blame."""
    known = [*kernel.arg_names, *triton_api.option_names(target)]
    for name in keywords:
        if name not in known:
            close = nearest(name, [*known, *(option.name for option in keyword_only(tune))])
            raise OptionError(
                f"{name!r} is neither a parameter of {kernel.__name__!r}, nor an option of "
                f"{target}, nor of kernellab.tune.",
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


def _pruned(
    configs: Sequence[Candidate], prune: Prune | None, given: Mapping[str, Any]
) -> list[Candidate]:
    if prune is None:
        return list(configs)
    kept = [config for config in configs if not _is_pruned(prune, config, given)]
    if not kept:
        raise ArgumentError(
            f"prune rejected all configs ({len(configs)} of {len(configs)}).",
            advice=(
                "prune receives one dict of all arguments, and must return True only for the "
                f"configs to leave out: {_PRUNING}."
            ),
        )
    return kept


def _is_pruned(prune: Prune, config: Candidate, given: Mapping[str, Any]) -> bool:
    names = {**given, **config.values}
    try:
        return bool(prune(names))
    except Exception as error:  # a function of the user
        raise ArgumentError(
            what_it_raised(f"prune, called for {config},", error),
            advice=called_with_a_dict(prune, names, _PRUNING),
        ) from error


@dataclass(frozen=True)
class _Plan:
    """The task of a sweep, with everything checked."""

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
    """The inputs of every outcome besides its config, kernel and machine."""


def _swept(
    plan: _Plan, workers: int | None, cache: bool, progress: bool | None
) -> tuple[dict[int, Outcome], Sequence[str]]:
    """Run the sweep; return the outcomes by config and notes on the sweep."""
    place, conduct = plan.place, plan.conduct
    with ExitStack() as stack:
        triton_api.check_globals(plan.kernel)
        # The same size for all sweeps, as a pool of another size would have to start its processes
        # anew. Only the processes that are needed start.
        size = workers or max(1, usable_cores() - len(place.gpus))
        pool = place.pool or local_pool(size, place.gpus)
        entries = list(_entries(plan, stack if place.pool is None else None))
        content = known_content(plan.kernel) if cache else None
        versions = (repr(place.machine), triton_api.compiler_key(place.target))
        about = (content, place.target, *versions, conduct.measure, *plan.alike)
        bar = SweepProgress(plan.kernel.__name__, len(entries), progress)
        sweep = Sweep(entries, pool, conduct, Store(content and about), bar)
        outcomes = sweep.outcomes()
        if isinstance(pool, LocalPool) and not pool.is_stopped:
            pool.release()
    return outcomes, sweep.notes


def _standard(configs: Sequence[Candidate], expected: Shipment | None) -> tuple[Any, ...]:
    """Return what identifies the results that configs are compared with."""
    if expected is not None:
        return (expected.digest,)
    first = configs[0].values
    return first, *contents_within(first.values())


def _delivery(shipment: Shipment, stack: ExitStack | None) -> Delivery:
    """Pass arguments to processes: in an unnamed file that `stack` closes, or in the calls."""
    if stack is None:
        return Delivery(shipment.digest, shipment=shipment)
    file = nameless_file(shipment.size)
    stack.callback(_closed, file)
    with (
        translated_system_faults("The arguments cannot be written for the sweep's processes"),
        ThreadPoolExecutor(1) as beside,  # Writing takes as long as making the digest.
    ):
        written = beside.submit(shipment.write, file)
        digest = shipment.digest
        written.result()
    return Delivery(digest, path_of(file))


def _closed(file: BinaryIO) -> None:
    with suppress(OSError):  # closing writes what could not be written before either
        file.close()


def _entries(plan: _Plan, stack: ExitStack | None) -> Iterator[Entry]:
    """Yield what each config needs to be compiled and run, in order."""
    calls, expected, prepared = plan.calls, plan.expected, plan.prepared
    shared = None if calls.shared is None else _delivery(calls.shared, stack)
    launches = [launch for launch in prepared if isinstance(launch, PreparedCall)]
    are_run = shared or any(launch.shipment for launch in launches)
    results = _delivery(expected, stack) if expected is not None and are_run else None
    for number, (candidate, launch) in enumerate(zip(plan.configs, prepared)):
        if isinstance(launch, Dropped):
            yield Entry(number, candidate, b"", None, (), launch)
            continue
        own = launch.shipment
        arguments = shared if own is None else _delivery(own, stack)
        setup = None
        if arguments is not None:
            gpu = plan.place.machine.gpu
            setup = Setup(plan.conduct.job, arguments, results, None, None, gpu)
        digest = "" if arguments is None else arguments.digest
        task = launch.task
        functions = contents_within(task.specialization.constants.values())
        about = (task.specialization, sorted(task.options.items()), task.grid, digest, *functions)
        yield Entry(number, candidate, pack(task), setup, about)
