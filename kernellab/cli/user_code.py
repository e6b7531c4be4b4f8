"""The user's code in commands: kernels of files, scripts, and GPU tests without a GPU."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import runpy
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from kernellab.common.patches import replaced
from kernellab.common.system import check_place, save_whole, temporary_folder
from kernellab.common.text import counted
from kernellab.errors import (
    KernelFault,
    KernelLabError,
    OptionError,
    SourcePosition,
    nearest,
    suggestion,
    visible,
)
from kernellab.profiling.profiles.profile import Profile


def load_kernel(place: str) -> Any:
    """The kernel that FILE::KERNEL names; FILE alone will do where the file defines one kernel.

    The file is run, as an import would.

    Raises:
        KernelLabError: there is no such file, it cannot be run, or it defines no such kernel.
    """
    path, _, name = place.partition("::")
    file = Path(path)
    if not os.path.isfile(file):  # which raises nothing, as Path.is_file may
        is_there = os.path.isdir(file.parent)
        here = sorted(map(str, file.parent.glob("*.py"))) if is_there else []
        raise KernelLabError(f"There is no file {path!r}.", advice=nearest(path, here))
    kernels = kernels_in(run_file(file))
    if not kernels:
        raise KernelLabError(
            f"{path} defines no kernel.",
            advice="Put @triton.jit (or @gluon.jit) above the function.",
        )
    if not name and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name in kernels:
        return kernels[name]
    advice = suggestion(name, kernels, "It defines")
    if name:
        raise KernelLabError(f"{path} has no kernel {name!r}.", advice=advice)
    raise KernelLabError(
        f"{path} has {len(kernels)} kernels.",
        advice=f"Name one: {path}::{next(iter(kernels))}. {advice}",
    )


def load_named(place: str) -> Any:
    """What FILE::NAME names, for which the file is run. Raises KernelLabError: there is no such
    file, it cannot be run, or it has no such name.
    """
    path, _, name = place.partition("::")
    return named_in(run_file(Path(path)), path, name)


def named_in(module: ModuleType, path: str, name: str) -> Any:
    if not hasattr(module, name):
        names = (known for known in vars(module) if not known.startswith("_"))
        raise KernelLabError(
            f"{path} has no {name!r}.", advice=suggestion(name, names, "It defines")
        )
    return getattr(module, name)


def kernels_in(module: ModuleType) -> dict[str, Any]:
    """The kernels, autotuned ones included, that a module's own code defines, by name."""
    from kernellab.launch.preparation import innermost
    from kernellab.torch_api.inductor import is_inductor_kernel
    from kernellab.triton_api import Autotuner, Heuristics, JITFunction

    return {
        name: value
        for name, value in vars(module).items()
        if (isinstance(value, JITFunction | Autotuner | Heuristics) or is_inductor_kernel(value))
        and innermost(value).fn.__module__ == module.__name__
    }


def run_file(file: Path) -> ModuleType:
    # A separate name: a file called json.py must not replace that module.
    name = f"kernels_of_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise KernelLabError(
            f"{file} is not a Python file.", advice="Pass a file whose name ends in .py."
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # As `python FILE` does, so that the file finds its neighbors;
    # not for longer, so that no one else does.
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        before = (error.text or "")[: max((error.offset or 0) - 1, 0)]
        column = len(before.encode()) + 1 if error.offset else 0
        position = SourcePosition(error.filename or str(file), error.lineno or 1, column)
        raise KernelLabError(
            f"{file} is not valid Python: {error.msg}.", position=position
        ) from error
    except Exception as error:  # the user's file may raise anything
        raise KernelLabError(
            f"{file} cannot be run: {type(error).__name__}: {error}",
            position=_place_in(file, error),
        ) from error
    finally:
        sys.path.remove(folder)
    return module


def _place_in(file: Path, error: Exception) -> SourcePosition | None:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == file.resolve()]
    last = lines[-1] if lines else None
    return None if last is None else SourcePosition(str(file), last)


def profile_script(
    script: str,
    arguments: list[str],
    output: Path | None,
    tree: Mapping[str, Any],
    **recording: Any,
) -> int:
    """Run a script, profiled, and print what its kernels took; the exit status is the script's.

    Args:
        script, arguments: the file, and its sys.argv besides.
        output: where the profile goes, too.
        tree: how it is printed, as for `Profile.tree`.
        recording: options of `kernellab.profile`.

    Raises:
        KernelLabError: there is no such file, or nothing can be measured here.
    """
    from kernellab.compiler.targets import local_target
    from kernellab.launch.interception import interpreted
    from kernellab.profiling.profiles.session import profile

    if not os.path.isfile(script):
        raise KernelLabError(
            f"There is no file {script!r}.", advice="Pass the path of a Python script."
        )
    if output is not None:
        check_place(output)
    session = profile(name=Path(script).name, **recording)
    with ExitStack() as stack:
        if local_target() is None:
            stack.enter_context(interpreted(answers="gpu"))
        stack.enter_context(session)
        status = _run_script(script, arguments)
    print(text_of(session.profile, tree))
    if output is not None:
        print(f"Profile: {session.profile.save(output)}")
    return status


def _run_script(script: str, arguments: list[str]) -> int:
    folder = str(Path(script).resolve().parent)
    sys.path.insert(0, folder)
    try:
        with replaced(sys, argv=[script, *arguments]):
            runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except Exception:  # the script's own, printed as Python prints it
        traceback.print_exc()
        return 1
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
    return 0


def view_file(file: str, diff: str | None, tree: Mapping[str, Any], *, lists_metrics: bool) -> int:
    """Print a saved profile, less the profile `diff` if there is one, or another record. Raises
    KernelLabError: the file opens as nothing.
    """
    from kernellab.viz.loading import load

    profile = load(file)
    if not isinstance(profile, Profile):
        print(profile)
        return 0
    if lists_metrics:
        print("\n".join(map(visible, profile.metrics)))
    elif diff is not None:
        print(profile.diff(load(diff)).tree(tree["metrics"]))
    else:
        print(text_of(profile, tree))
    return 0


def text_of(profile: Profile, tree: Mapping[str, Any]) -> str:
    """A profile for a terminal: as `print` shows it, or the tree of some metrics."""
    return str(profile.tree(**tree) if any(v is not None for v in tree.values()) else profile)


# A pytest plugin: tests of GPU code run on the CPU. `kernellab test-on-cpu` loads it.
#
# When it is imported, before the tests' own `conftest.py`, torch begins to report a GPU that
# does not exist, and launches go to the interpreter. What happened is appended to a file, a line
# of JSON for each event, since pytest-xdist's workers are separate processes.

SETTINGS = "KERNELLAB_TEST_ON_CPU"
"""The environment variable with the target and the file that is appended to, as JSON."""

_launches: Counter[str] = Counter()


def _write_event(**event: Any) -> None:
    with open(json.loads(os.environ[SETTINGS])["events"], "a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")


def _begin() -> None:
    from kernellab.launch.dispatch import on_launch
    from kernellab.launch.interception import interpreted

    target = json.loads(os.environ[SETTINGS])["target"]
    interpreted(target=target, answers="gpu").__enter__()
    on_launch(lambda launch: _launches.update([launch.kernel.__name__]))
    atexit.register(lambda: _write_event(launches=dict(_launches)))


def pytest_runtest_logreport(report: Any) -> None:
    """Note how a test ended, in the process that ran it."""
    if hasattr(report, "node"):  # the copy that pytest-xdist hands to the controller
        return
    if hasattr(report, "wasxfail"):
        _write_event(outcome="xpassed" if report.passed else "xfailed", test=report.nodeid)
    elif report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _write_event(outcome="skipped", test=report.nodeid, reason=reason.removeprefix("Skipped: "))
    elif report.failed or report.when == "call":
        crash = getattr(report.longrepr, "reprcrash", None)
        why = "" if crash is None else crash.message.partition("\n")[0]
        _write_event(outcome=report.outcome, test=report.nodeid, why=why)


def pytest_exception_interact(node: Any, call: Any) -> None:
    """Note an error of KernelLab's: the test that it ended, and the kernel's line."""
    error = call.excinfo.value
    while error is not None and not isinstance(error, KernelLabError):
        error = error.__cause__ or error.__context__
    if error is None:
        return
    place = getattr(error, "position", None)
    _write_event(
        error=type(error).__name__,
        is_fault=isinstance(error, KernelFault),
        what=str(error).partition("\n")[0],
        place=f"{place.file}:{place.line}" if place else "",
        test=node.nodeid,
    )


if SETTINGS in os.environ:
    _begin()

_PLUGIN = "-p kernellab.cli.user_code"

_SITE = """\
import importlib.abc
import importlib.util
import sys


class AfterTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                import kernellab.cli.user_code

            spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, AfterTorch())
"""
"""The tests' `sitecustomize`: their processes see the same GPU once torch is imported."""

_MOST_LINES = 20
"""Lines of each list in the report; the file of `--json` has all."""


def run_tests(words: Sequence[str], gpu: str, report: Path | None) -> int:
    """Run the command with the plugin and print a summary; exit with the command's status. Raises
    OptionError: there is no command, it cannot be started, or the target is unknown.
    """
    from kernellab.compiler.targets import parse_target

    if not words:
        raise OptionError(
            "COMMAND is missing.", advice="Write it last: kernellab test-on-cpu pytest tests."
        )
    if report is not None:
        check_place(report)
    target = parse_target(gpu).name
    with temporary_folder() as folder:
        events = Path(folder) / "events"
        settings = json.dumps({"target": target, "events": str(events)})
        added = " ".join(filter(None, [os.environ.get("PYTEST_ADDOPTS"), _PLUGIN]))
        Path(folder, "sitecustomize.py").write_text(_SITE, encoding="utf-8")
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        environment = {
            **os.environ, SETTINGS: settings, "PYTEST_ADDOPTS": added, "PYTHONPATH": path,
        }  # fmt: skip
        status = _run_command(_with_this_python(words), environment)
        lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    happened = [json.loads(line) for line in lines]
    print(report_text(happened, target))
    if report is not None:
        save_whole(report, json.dumps(happened, indent=1).encode())
    return status


def _with_this_python(words: Sequence[str]) -> list[str]:
    """Have `pytest ...` and `python ...` run by the Python that has KernelLab."""
    first, *rest = words
    if first in ("pytest", "py.test"):
        return [sys.executable, "-m", "pytest", *rest]
    return [sys.executable, *rest] if first in ("python", "python3") else list(words)


def _run_command(command: Sequence[str], environment: Mapping[str, str]) -> int:
    sys.stdout.flush()
    try:
        return subprocess.run(command, env=environment, check=False).returncode
    except OSError as error:
        raise OptionError(
            f"{command[0]!r} cannot be started: {error.strerror}.",
            advice="Write a command such as: kernellab test-on-cpu pytest tests.",
        ) from error


def report_text(events: Iterable[Mapping[str, Any]], target: str) -> str:
    """The report of what happened, as text: kernels, outcomes, what needs a GPU, findings."""
    launches, outcomes, reasons, needs, faults = (Counter[str]() for _ in range(5))
    explained = set()
    failed = {}
    for event in events:
        launches.update(event.get("launches", {}))
        if "outcome" in event:
            outcomes[event["outcome"]] += 1
        if event.get("outcome") == "skipped":
            reasons[event["reason"]] += 1
        if event.get("outcome") == "failed":
            failed[event["test"]] = event.get("why", "")
        if "error" in event:
            place = f"{event['place']}: " if event["place"] else ""
            (faults if event["is_fault"] else needs)[f"{place}{event['what']}"] += 1
            explained.add(event["test"])
    total = sum(launches.values())
    ended = ", ".join(f"{n} {name}" for name, n in sorted(outcomes.items()))
    lines = [
        f"On the CPU, as on {target}: {total:,} launches of {counted(len(launches), 'kernel')}.",
        f"Tests: {ended or 'none'}.",
    ]
    lines += _listed("Findings", faults)
    lines += _listed("What KernelLab does not run", needs)
    lines += _listed("Skipped by the tests themselves", reasons)
    others = {f"{test}: {why}": 1 for test, why in sorted(failed.items()) if test not in explained}
    lines += _listed("Failed for other reasons", Counter(others))
    return "\n".join(lines)


def _listed(title: str, counts: Counter[str]) -> list[str]:
    if not counts:
        return []
    rows = [
        f"  {visible(words)}" + (f" ({number} times)" if number > 1 else "")
        for words, number in counts.most_common(_MOST_LINES)
    ]
    rest = len(counts) - len(rows)
    return ["", f"{title}:", *rows, *([f"  and {rest} more"] if rest else [])]
