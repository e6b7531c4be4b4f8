"""What `kernellab judge` compares a submission with: a file and a name; a task of KernelBench, of
robust-kbench or of GPU MODE, read as it is; and a lock that another Triton wrote. And many
submissions, which a cluster judges.
"""

from __future__ import annotations

import importlib
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from kernellab.cli.user_code import named_in, run_file
from kernellab.common.processes import Worker
from kernellab.common.saved_files import json_in, reading
from kernellab.common.system import temporary_folder
from kernellab.common.text import error_text
from kernellab.errors import Diagnostic, KernelLabError, OptionError, WorkerError
from kernellab.judging.code import mapped, tensors_within
from kernellab.judging.judge import judge
from kernellab.judging.records import Verdict
from kernellab.launch.cuda_tensors import place
from kernellab.launch.interception import interpreted
from kernellab.tuning.sweep import ClusterPool

_LARGEST = 1 << 20
"""The most elements of all tensors of a test; larger tests are left out."""


@dataclass(frozen=True)
class Task:
    """The reference and the cases by which a submission is judged.

    Attributes:
        reference, cases, init: as for `kernellab.judge`.
        imports: folders with the modules that a submission may import.
    """

    reference: Any
    cases: Any
    init: Sequence[Any] = ()
    imports: tuple[str, ...] = ()


@contextmanager
def judged_task(reference: str, cases: str | None) -> Iterator[Task]:
    """The task of FILE::NAME, whose cases are `cases` or KernelBench's `get_inputs` of the same
    file or of another; or the task in a folder. Raises KernelLabError: no such file, name or task,
    or the file cannot be run.
    """
    torch.manual_seed(0)  # cases that draw their numbers are the same for every submission
    path, _, name = reference.partition("::")
    if os.path.isdir(path):
        kind = next((each for each in _KINDS if Path(path, each).exists()), None)
        if kind is None:
            raise KernelLabError(f"{path} has neither {' nor '.join(_KINDS)}.")
        with ExitStack() as open_:
            try:
                task = open_.enter_context(_KINDS[kind](Path(path)))
            except (AttributeError, LookupError, TypeError, ValueError, OSError) as error:
                words = f"{type(error).__name__}: {error}"
                raise KernelLabError(f"The task in {path} cannot be read: {words}") from error
            yield task
        return
    module = run_file(Path(path))
    function = named_in(module, path, name or "Model")
    other = module if cases is None else run_file(Path(cases))
    own = "cases" if hasattr(other, "cases") else "get_inputs"
    init = getattr(other, "get_init_inputs", getattr(module, "get_init_inputs", list))
    yield Task(function, named_in(other, cases or path, own), init())


@contextmanager
def _robust_kbench(folder: Path) -> Iterator[Task]:
    """The function of a task of robust-kbench, on what its `Model` calls it with."""
    module = run_file(folder / "func_forward.py")
    file = folder / "config_forward.json"
    with reading(str(file)):
        config = json_in(file.read_text())
    cases: list[Any] = []

    def function(*args: Any) -> Any:
        cases.append(mapped(args, lambda x: x.detach() if isinstance(x, torch.Tensor) else x))
        return module.forward_fn(*args)

    kinds = ("single_init_configs", "single_input_configs", "single_shared_configs")
    for init, inputs, shared in itertools.product(*(config[kind] for kind in kinds)):
        model = module.Model(**{**init, **shared}).eval()
        with torch.no_grad():
            model(*module.get_inputs(**{**inputs, **shared}), fn=function)
    yield Task(module.forward_fn, cases)


@contextmanager
def _gpu_mode(folder: Path) -> Iterator[Task]:
    """GPU MODE's function on its small tests; it may use a GPU, which is emulated."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise KernelLabError(
            "Reading task.yml needs PyYAML.", advice="Install it: pip install pyyaml."
        ) from error
    task = yaml.safe_load((folder / "task.yml").read_text())
    files = {each["name"]: each["source"] for each in task["files"]}
    with temporary_folder() as own:
        for name, source in files.items():
            if source != "@SUBMISSION@":
                shutil.copy(folder / source, Path(own, name))
        with _only_here(Path(name).stem for name in files):
            module = run_file(Path(own, "reference.py"))
        drawn = [(_on_a_gpu(module.generate_input)(**test),) for test in task["tests"]]
        cases = [case for case in drawn if _elements(case) <= _LARGEST]
        if not cases:
            least = min(map(_elements, drawn))
            raise ValueError(f"its smallest test has {least:,} elements; {_LARGEST:,} are judged")
        yield Task(_on_a_gpu(module.ref_kernel), cases, (), (own,))


_KINDS = {"task.yml": _gpu_mode, "func_forward.py": _robust_kbench}
"""The file that a folder with a task has -> what reads it."""


def _elements(case: Any) -> int:
    return sum(tensor.numel() for tensor in tensors_within(case))


@contextmanager
def _only_here(names: Iterator[str]) -> Iterator[None]:
    """Import modules of these names anew, and forget them afterwards."""
    before = {name: sys.modules.pop(name, None) for name in names}
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def _on_a_gpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs on an emulated GPU, whose memory is the CPU's."""

    def called(*args: Any, **keywords: Any) -> Any:
        with interpreted(answers="gpu"):
            for tensor in tensors_within(args):
                place(tensor, "gpu")
            return function(*args, **keywords)

    return called


@contextmanager
def locked_elsewhere(
    environments: str | None, submission: str, options: Mapping[str, Any]
) -> Iterator[list[str]]:
    """The locks that `kernellab judge --triton ENVIRONMENT,...` compares with, which exist
    meanwhile: what the kernels cost with the Triton of each environment.

    Args:
        environments: folders of virtual environments, or versions of Triton, with commas between.
        submission, options: what the command judges, and how.

    Raises:
        KernelLabError: there is no such environment, or nothing was judged there.
    """
    words = [f"--{name}={value}" for name, value in options.items() if value is not None]
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with temporary_folder() as folder:
        locks = []
        for word in filter(None, (environments or "").split(",")):
            python = _python_of(word)
            locks.append(Path(folder, f"triton-{Path(word).name}.lock"))
            command = [str(python), "-m", "kernellab", "judge", submission, *words]
            done = subprocess.run(
                [*command, f"--update={locks[-1]}"], env=variables, capture_output=True, text=True
            )
            if not locks[-1].exists():
                words_there = (done.stdout + done.stderr).strip()[-2000:]
                raise KernelLabError(f"The kernels were not judged by {python}:\n{words_there}")
        yield [*map(str, locks)]


def _python_of(word: str) -> Path:
    place = Path(word)
    if re.fullmatch(r"[\d.]+", word):
        files = f"lib/python*/site-packages/triton-{word.rstrip('.')}.*"
        packages = sorted(
            file for depth in ("*", "*/*") for file in Path().glob(f"{depth}/{files}")
        )
        place = packages[0].parents[3] if packages else place
        if packages and (owner := place.stat().st_uid) not in (0, os.getuid()):
            raise KernelLabError(
                f"The virtual environment {str(place)!r} belongs to another user (number {owner}), "
                "so its Python is not run.",
                advice="Name its folder, if you trust it.",
            )
    python = Path(place, "bin", "python")
    if not python.exists():
        what = f"{str(python)!r} does not exist."
        if place == Path(word) and re.fullmatch(r"[\d.]+", word):
            what = f"No virtual environment in this folder has Triton {word}."
        raise KernelLabError(what, advice="Name the folder of one with torch and Triton.")
    return python


def submissions_in(words: Sequence[str]) -> list[str]:
    """Return the submissions FILE::NAME of a command: of FOLDER::NAME, those in all its files.
    Raises OptionError: a folder has no Python file.
    """
    submissions: list[str] = []
    for word in words:
        path, _, name = word.partition("::")
        if not os.path.isdir(path):
            submissions.append(word)
        elif files := sorted(Path(path).glob("*.py")):
            submissions += [f"{file}::{name}" for file in files]
        else:
            raise OptionError(
                f"The folder {path!r} has no Python file.",
                advice="Pass a folder that contains Python files.",
            )
    return submissions


def judged(
    submission: str,
    reference: str,
    cases: str | None,
    locks: Sequence[str | None],
    options: Mapping[str, Any],
) -> Verdict:
    """Return the verdict on a submission: the first that does not accept it by one of the locks.

    Args:
        submission, options: as for `kernellab.judge`.
        reference, cases: as for `judged_task`.
        locks: None for none.
    """
    with judged_task(reference, cases) as task:
        for lock in locks:
            verdict = judge(
                submission, task.reference, task.cases, init=task.init, imports=task.imports,
                lock=lock, **options,
            )  # fmt: skip
            if not verdict:
                break
    return verdict


def judged_on(address: str, submissions: Sequence[str], *given: Any) -> Iterator[Verdict]:
    """Yield the verdicts of a Dask cluster on submissions, in order; `given`: see `judged`.

    A submission whose worker is lost is judged again, at most three times; after that its verdict
    is "not judged".

    Raises:
        KernelLabError: no Dask, no scheduler, or a worker with other versions or without files.
    """
    try:
        import distributed
    except ImportError as error:
        raise KernelLabError(
            "The package distributed is not installed.",
            advice="Run pip install 'kernellab[cluster]'.",
        ) from error
    try:
        make_client: Callable[..., Any] = distributed.Client
        client = make_client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise KernelLabError(
            f"No scheduler of Dask answers at {address!r}: {error}",
            advice="Name one as tcp://HOST:8786; dask scheduler starts one.",
        ) from error
    with client:
        pool = ClusterPool(client)
        futures = [
            pool.submit(judged_there, _versions(), os.getcwd(), submission, *given)
            for submission in submissions
        ]
        try:
            for submission, future in zip(submissions, futures):
                yield _verdict_of(submission, partial(pool.first_answer, future))
        finally:
            pool.stop()


def _verdict_of(submission: str, answer: Callable[[], Verdict | KernelLabError]) -> Verdict:
    try:
        verdict = answer()
    except Exception as error:  # of Dask, or of the process that judged
        words = f"its worker was lost, also when it was judged again: {error_text(error)}"
        return Verdict(submission, "not judged", diagnostic=Diagnostic("error", "lost", words))
    if isinstance(verdict, KernelLabError):
        raise verdict
    return verdict


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("kernellab", "torch", "triton")}


_child = Worker("The judge of a cluster's worker")
"""In a worker of a cluster: a process whose only thread a time limit may interrupt."""
_MOST_SECONDS = 900.0
"""Of a submission; `kernellab.judge` itself stops after two minutes, but not in a reference."""


def judged_there(versions: Mapping[str, str], folder: str, *given: Any) -> Verdict | KernelLabError:
    """In a cluster's worker: return the verdict, or an error that would repeat."""
    for name, own in _versions().items():
        if own != versions[name]:
            return KernelLabError(
                f"A worker on {platform.node()} has {name} {own}, and not {versions[name]}.",
                advice="Start workers in an environment with the same versions.",
            )
    try:
        verdict: Verdict = _child.call(
            "kernellab.cli.tasks:_judged_in", folder, *given, seconds=_MOST_SECONDS
        )
        return verdict
    except WorkerError:
        raise  # which repeats the call
    except KernelLabError as error:
        return error


def _judged_in(folder: str, *given: Any) -> Verdict:
    try:
        os.chdir(folder)
    except OSError as error:
        raise KernelLabError(
            f"A worker on {platform.node()} has no folder {folder!r}.",
            advice="Workers read the files of submissions, references and cases by their paths.",
        ) from error
    return judged(*given)
