"""The command line: `kernellab demo`, `doctor`, `compile`, `judge`, `mcp`, `profile`, `view`,
`test-on-cpu`, `workshop`.

Each command imports what it needs when it runs, so that `kernellab --help` answers at once.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kernellab.cli import doctor
from kernellab.common import system
from kernellab.common.arguments import (
    Option,
    option,
    options_of,
    read_constexprs,
    read_warps,
    read_whole_number,
    spread_constexprs,
    stated_by_options,
)
from kernellab.common.saved_files import kernellab_version
from kernellab.errors import CompileError, KernelLabError, MissingArguments, OptionError, suggestion

if TYPE_CHECKING:
    from kernellab.compiler.compilations import Compilation
    from kernellab.judging.records import Verdict

_DEMO_REPORT = Path("kernellab-demo.html")

FOUND_SOMETHING = 1
"""Exit status: the command ran, and something is not as it should be."""
BAD_INPUT = 2
"""Exit status: the command could not do what it was asked for."""
CUT_OFF = 141
"""Exit status: no one reads the output any more; a shell's for SIGPIPE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; `arguments` as in sys.argv[1:]."""
    system.hold_standard_descriptors()
    system.escape_unknown_letters()
    try:
        try:
            return _command(arguments)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # Whoever read has seen enough: `kernellab doctor | head -1`.
        system.abandon_output()
        return CUT_OFF
    except OSError as error:
        if _can_print():
            raise
        system.abandon_output()
        print(f"kernellab: the output cannot be written: {error.strerror}", file=sys.stderr)
        return BAD_INPUT


def _can_print() -> bool:
    """Whether stdout takes anything; what it refused is dropped, so that a line is tried."""
    try:
        print(flush=True)
    except OSError:
        return False
    return True


def _command(arguments: Sequence[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        options = vars(_parser().parse_args(spread_constexprs(words)))
        return int(options.pop("command")(**options))
    except KernelLabError as error:
        print(f"kernellab: {error}", file=sys.stderr)
    except (ImportError, MemoryError, OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # Of files and streams; a library that does not fit into memory has no number.
        fault = system.system_fault(error, "this command cannot run")
        if fault is None and getattr(error, "name", "") is not None:
            raise  # A real failure to import; ours carry words and no name.
        print(f"kernellab: {fault or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("kernellab: stopped", file=sys.stderr)
    return BAD_INPUT


class _Parser(argparse.ArgumentParser):
    """Says which word was probably meant."""

    commands: Sequence[str] = ()

    def error(self, message: str) -> Any:
        if "invalid choice: " in message:
            word = message.split("invalid choice: ")[1].split("'")[1]
            advice = suggestion(word, self.commands, "Commands:")
            message = f"there is no command {word!r}. {advice}"
        super().error(message)

    def _print_message(self, message: str, file: Any = None) -> None:
        stream = file or sys.stderr
        if stream is not None:
            stream.write(message)

    def add_commands(self, functions: Sequence[Callable[..., int]]) -> list[_Parser]:
        """Add functions as commands, by signature and docstring; return their parsers."""
        self.commands = [_name_of(function) for function in functions]
        below = self.add_subparsers(title="commands", metavar="COMMAND", required=True)
        made = []
        for name, function in zip(self.commands, functions):
            sources: list[Callable[..., Any]] = [function, *_MORE.get(function, ())]
            explained = "\n".join(inspect.getdoc(source) or "" for source in sources)
            description = explained.partition("\n\nOptions:")[0]
            summary = description.partition("\n\n")[0]
            parser = below.add_parser(
                name,
                help=f"{summary[0].lower()}{summary[1:].rstrip('.')}",
                description=description.replace("\n\n", " "),
            )
            for source in sources:
                for declared in options_of(source, explained):
                    parser.add(declared)
            parser.set_defaults(command=function)
            made.append(parser)
        return made

    def add(self, option: Option) -> None:
        settings: dict[str, Any] = {"help": option.help, "default": option.default}
        if option.flag:
            settings |= {"dest": option.name, "required": option.required}
        elif option.count is not None:
            settings["nargs"] = option.count
        if option.flag and not option.metavar:
            settings["action"] = "store_true"
        else:
            settings |= {"metavar": option.metavar, "type": _reader(option.read)}
            if option.repeated:
                settings["action"] = "append"
        self.add_argument(*filter(None, (option.short, option.flag or option.name)), **settings)


def _name_of(function: Callable[..., Any]) -> str:
    return function.__name__.strip("_").replace("_", "-")


def _parser() -> _Parser:
    parser = _Parser(prog="kernellab", description="A lab for tile kernels.")
    parser.add_argument("--version", action="version", version=f"kernellab {kernellab_version()}")
    *_, workshop = parser.add_commands(_COMMANDS)
    workshop.add_commands((_init, _check, _report))
    return parser


def _reader(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader whose ValueError argparse shows in its own words."""

    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{error}, got {text!r}") from None

    return convert


def _demo(*, output: Path = option(Path, default=_DEMO_REPORT)) -> int:
    """Run five kernels on the CPU, check them against torch, compile them, write a report.

    The kernels run at real sizes; each is compiled for sm_90. A table is printed, and one
    self-contained HTML report is written.

    Options:

      -o, --output FILE
          where the report goes (default: kernellab-demo.html)
    """
    from kernellab.cli.demo import all_cases
    from kernellab.cli.demo.report import demo_report, results_card, run_case

    system.check_place(output)
    results = []
    for case in all_cases():
        print(f"{case.name}, {case.size} ...", end=" ", flush=True)
        result = run_case(case)
        remark = f" ({result.remark})" if result.remark else ""
        print(f"{'pass' if result.passed else 'FAIL'}{remark}")
        results.append(result)
    print()
    print(results_card(results))
    print()
    _write(output, demo_report(results))
    return 0 if all(result.passed for result in results) else FOUND_SOMETHING


def _doctor(*, json_: bool = option()) -> int:
    """Say what is installed, whether it fits together, and what is missing.

    It says which GPU is here, too. The exit status is 1 where something that KernelLab needs is
    missing or broken.

    Options:

      --json
          the same for machines: a list of diagnostics
    """
    findings = doctor.examine()
    if json_:
        print(json.dumps([finding.to_json() for finding in findings], indent=2))
    else:
        print(doctor.report_text(findings))
    return 0 if doctor.healthy(findings) else FOUND_SOMETHING


def _compile(
    kernel: str,
    *,
    sig: str = option(default=""),
    constexpr: list[Any] = option(read_constexprs, repeated=True),
    target: str | None = option(),
    num_warps: int | None = option(read_warps),
    num_stages: int | None = option(read_whole_number),
    output: Path | None = option(Path),
) -> int:
    """Compile one kernel of a Python file for one GPU or several.

    The kernel goes through Triton's whole pipeline; no GPU is needed.

    Options:

      kernel FILE::KERNEL
          the file, which is run, and the kernel's name in it
      --sig TYPES
          the argument types: "*fp32:16, *fp32, i32"; ":16" promises divisibility by 16; an entry
          may be named: "n=i32"
      --constexpr NAME=VALUE
          the value of a tl.constexpr parameter; several with commas or blanks between them:
          BM=64,BN=32
      --target GPU[,GPU...]
          sm_80, sm_90, gfx942, ...; this machine's GPU, else sm_90, where left out
      --num-warps N
          warps per program
      --num-stages N
          stages of the software pipeline
      -o, --output FILE
          write an HTML report: every pass and every stage, in the IR explorer
    """
    if output is not None:
        system.check_place(output)
    constants = dict(chain.from_iterable(constexpr))
    stated = {"num_warps": num_warps, "num_stages": num_stages}
    given = {name: value for name, value in stated.items() if value is not None}
    record: Literal["stages", "passes"] = "stages" if output is None else "passes"
    try:
        compilations = _compilations(kernel, sig, constants, target, given, record)
    except CompileError as error:
        if output is not None:
            from kernellab.records.display import show
            from kernellab.viz.kit.page import Section, page_of_views

            view = show(error)
            _write(output, page_of_views(view.title, [Section("", view, ())]))
        raise
    from kernellab.viz.kernels import kernel_card
    from kernellab.viz.pages import compilation_report, resources_card

    if len(compilations) == 1:
        known_from = dict.fromkeys(constants, "--constexpr")
        print(kernel_card(compilations[0], known_from=known_from).text())
    else:
        print(resources_card(compilations))
    if output is not None:
        print()
        _write(output, compilation_report(compilations))
    return 0


def _compilations(
    named: str,
    sig: str,
    constants: Mapping[str, Any],
    gpus: str | None,
    given: Mapping[str, int],
    record: Literal["stages", "passes"],
) -> list[Compilation]:
    from kernellab.cli.user_code import load_kernel
    from kernellab.compiler.arguments import parse_signature
    from kernellab.compiler.binding import bind
    from kernellab.compiler.kernels import InductorKernel, assume, unwrap_kernel
    from kernellab.compiler.pipeline import compile_bound
    from kernellab.compiler.targets import DEFAULT_TARGET, local_target, parse_targets

    kernel = load_kernel(named)
    args, types = parse_signature(sig)
    kernel, types = unwrap_kernel(kernel, args, types, constants)
    if gpus is not None:
        targets = parse_targets(gpus)
    elif isinstance(kernel, InductorKernel):
        targets = [kernel.target]
    else:
        targets = [local_target() or DEFAULT_TARGET]
    if not sig:
        types |= assume(kernel, constants)
    try:
        calls = [
            bind(kernel, args, types, target, options=given, constants=constants)
            for target in targets
        ]
    except MissingArguments as error:
        error.advice = stated_by_options(error)
        raise
    return [
        compile_bound(kernel, call, target, record=record)
        for call, target in zip(calls, targets, strict=True)
    ]


def _judge(
    submission: list[str] = option(count="+"),
    *,
    reference: str,
    cases: str | None = option(),
    target: str = option(default="sm_90"),
    unseen: str = option(default="values,shapes,strides"),
    budget: float | None = option(float),
    claimed: float | None = option(float),
    rtol: float | None = option(float),
    atol: float | None = option(float),
    lock: str | None = option(),
    update: str | None = option(),
    triton: str | None = option(),
    cluster: str | None = option(),
    json_: bool = option(),
    junit: Path | None = option(Path),
    sarif: Path | None = option(Path),
    output: Path | None = option(Path),
) -> int:
    """Judge kernels, or functions that launch kernels, against a reference.

    The submission's Python runs in a confined process on random numbers; its launches are replayed
    with the real inputs. The exit status is 1 if it is not accepted.

    Options:

      submission FILE::NAME
          a kernel, a function, or a class to judge; several, or FOLDER::NAME for all of its files
      --reference FILE::NAME
          a function or a class that computes the right results, in a file that is trusted; or the
          folder of a task of GPU MODE or robust-kbench
      --cases FILE
          a trusted file that defines `cases` or `get_inputs`; else that of the reference
      --target GPU[,GPU...]
          sm_80, sm_90 (the default), gfx942, ...
      --unseen KINDS
          what further cases are made of the given ones (values,shapes,strides)
      --budget US
          the most microseconds, by the estimate
      --claimed US
          microseconds that the submission claims
      --rtol NUMBER
          how far an element may be off, relative to its size
      --atol NUMBER
          how far an element may be off, whatever its size
      --lock FILE
          reject kernels that cost more than this file allows
      --update FILE
          write what the kernels cost to this file
      --triton ENVIRONMENT[,...]
          reject kernels that cost more than with the Triton of other virtual environments; each is
          a folder, or the version of its Triton
      --cluster ADDRESS
          judge on the workers of a Dask cluster, which read the same files
      --json
          the same for machines, on one line
      --junit FILE
          write JUnit XML for CI, too
      --sarif FILE
          write SARIF for CI, too
      -o, --output FILE
          write a page, too
    """
    budgets = {"--lock": lock, "--update": update, "--triton": triton}
    files = {"--junit": junit, "--sarif": sarif, "--output": output}
    _check_apart(budgets)
    _check_apart({"--cluster": cluster, "--update": update, "--triton": triton})
    from kernellab.judging.worker import start_worker

    if cluster is None:
        start_worker()  # before torch and Triton are imported here
    from kernellab.cli.tasks import judged, judged_on, locked_elsewhere, submissions_in
    from kernellab.judging.budgets import Lock

    submissions = submissions_in(submission)
    for flag, value in {**files, **budgets}.items():
        if value is not None and len(submissions) > 1:
            raise OptionError(f"{flag} takes a single submission, got {len(submissions)}.")
    given = {
        "reference": reference, "cases": cases, "target": target, "unseen": unseen, "rtol": rtol,
        "atol": atol,
    }  # fmt: skip
    options = {
        "targets": target, "unseen": tuple(filter(None, unseen.split(","))), "baseline": budget,
        "claimed": claimed, "rtol": rtol, "atol": atol, "update": update is not None,
    }  # fmt: skip
    if lock or update:
        Lock(Path(lock or update or ""), "", updates=bool(update)).entries()  # before any work
    accepted = 0
    with locked_elsewhere(triton, submissions[0], given) as others:
        locks: list[str | None] = [*others] or [lock or update]
        rest = reference, cases, locks, options
        verdicts: Iterable[Verdict] = (judged(name, *rest) for name in submissions)
        if cluster is not None:
            verdicts = judged_on(cluster, submissions, *rest)
        for verdict in verdicts:
            accepted += bool(verdict)
            print(verdict.json() if json_ else verdict, flush=True)
            _write_verdict(verdict, junit, sarif, output)
    return 0 if accepted == len(submissions) else FOUND_SOMETHING


def _check_apart(options: Mapping[str, Any]) -> None:
    stated = [flag for flag, value in options.items() if value is not None]
    if len(stated) > 1:
        raise OptionError(
            f"{stated[0]} cannot be combined with {stated[1]}.", advice="Pass only one of them."
        )


def _write_verdict(
    verdict: Verdict, junit: Path | None, sarif: Path | None, page_file: Path | None
) -> None:
    if junit is not None:
        system.save_whole(junit, verdict.junit().encode())
    if sarif is not None:
        system.save_whole(sarif, json.dumps(verdict.sarif(), indent=1).encode())
    if page_file is not None:
        from kernellab.viz.exercises import verdict_card
        from kernellab.viz.kit.page import Html, page

        card = Html(verdict_card(verdict).html())
        system.save_whole(page_file, page(verdict.submission, Html(""), [card]).encode())


def _mcp() -> int:
    """Serve KernelLab's functions to an agent, by the Model Context Protocol.

    The functions are judge, compile, explain, check, step, diagnose, equal and search, over stdin
    and stdout. It needs the extra: pip install 'kernellab[mcp]'.
    """
    try:
        from kernellab.cli.mcp_server import serve
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        raise KernelLabError(
            "The package mcp is not installed.", advice="Run pip install 'kernellab[mcp]'."
        ) from error
    serve()
    return 0


def as_a_tree(
    *,
    metrics: str | None = option(),
    include: str | None = option(),
    exclude: str | None = option(),
    threshold: float | None = option(float),
    depth: int | None = option(int),
) -> None:
    """
    How a profile is printed:

      -m, --metrics METRICS
          time/ms,tflop16/s: as a tree
      -i, --include PATTERN
          only paths through such names
      -e, --exclude PATTERN
          without such names
      -t, --threshold N
          of the first metric
      -d, --depth N
          levels of the tree
    """


def _profile(
    script: str,
    arguments: list[str] = option(count=argparse.REMAINDER),
    *,
    output: Path | None = option(Path),
    mode: str | None = option(),
    context: str = option(default="shadow"),
    **tree: Any,
) -> int:
    """Run a script and say what its kernels and their lines take.

    The times are measured on a GPU by Proton; otherwise they are the interpreter's, which do not
    predict a GPU's. The exit status is the script's.

    Options:

      script SCRIPT
          a Python file, which is run
      arguments ...
          what the script is given
      -o, --output FILE
          where the profile goes: p.hatchet is Proton's form, p.speedscope.json speedscope's
      --mode MODE
          pcsampling: Proton samples the lines of kernels, on a GPU
      --context CONTEXT
          shadow (the default), or python: frames too
    """
    from kernellab.cli.user_code import profile_script

    return profile_script(script, arguments, output, tree, mode=mode, context=context)


def _view(file: str, *, diff: str | None = option(), list_: bool = option(), **tree: Any) -> int:
    """Show a saved profile, a .hatchet of Proton's, or another saved record.

    A profile is shown as its lines and kernels, or as a tree of metrics.

    Options:

      file FILE
          p.hatchet, or whatever kernellab.load opens
      --diff FILE
          another profile: this one less that one
      -l, --list
          list the metrics
    """
    from kernellab.cli.user_code import view_file

    return view_file(file, diff, tree, lists_metrics=list_)


def _test_on_cpu(
    words: list[str] = option(count=argparse.REMAINDER),
    *,
    target: str = option(default="sm_90"),
    json_: Path | None = option(Path),
) -> int:
    """Run a library's GPU tests without a GPU, and say what ran and what was found.

    torch reports a GPU that does not exist, and all Triton kernels run on the interpreter.
    Afterwards, a report says what was launched, what KernelLab does not run and why, and the faults
    that were found. The exit status is the command's.

    Options:

      words COMMAND
          the command that runs the tests: pytest tests/ops -x
      --target GPU
          the GPU that torch reports (sm_90)
      --json FILE
          write every event to a file, too
    """
    from kernellab.cli.user_code import run_tests

    return run_tests(words, target, json_)


def _workshop() -> int:
    """Write a student's folder of exercises, answer it, or report on a class."""
    raise AssertionError("the command below it runs")


def _init(folder: Path = option(Path)) -> int:
    """Write a student's folder: the course, exercises; is the machine ready?

    Options:

      folder DIR
          where it is written
    """
    from kernellab.workshop.course import write_folder

    written = write_folder(folder)
    for file in written:
        print(file)
    if not written:
        print(f"{folder} has everything already; nothing was written")
    findings = doctor.examine()
    if doctor.healthy(findings):
        print("This machine is ready.")
        return 0
    print(doctor.report_text([finding for finding in findings if finding.state == "missing"]))
    return FOUND_SOMETHING


def _check(
    folder: Path = option(Path, count="?", default=Path()), *, json_: bool = option()
) -> int:
    """Answer every exercise of a folder; its code runs in confined processes.

    Options:

      folder DIR
          the student's; this one where left out
      --json
          the same for machines, on one line
    """
    from kernellab.workshop.grader import grade_folder

    _say_what_is_not_confined()
    grades = grade_folder(folder)
    print(grades.json() if json_ else grades)
    return FOUND_SOMETHING if grades.problems else 0


def _report(
    folders: list[Path] = option(Path, count="+"),
    *,
    json_: bool = option(),
    output: Path | None = option(Path),
) -> int:
    """Show a class at a glance: each folder is graded in a separate process.

    Options:

      folders DIR
          those of the students
      --json
          the same for machines, on one line
      -o, --output FILE
          write a page, too
    """
    from kernellab.viz.pages import grades_page
    from kernellab.workshop.grader import grade_class

    _say_what_is_not_confined()
    grades = grade_class(folders)
    print(grades.json() if json_ else grades)
    if output is not None:
        system.save_whole(output, grades_page(grades).encode())
    return FOUND_SOMETHING if grades.problems else 0


def _say_what_is_not_confined() -> None:
    from kernellab.judging.confinement import unconfined

    for words in unconfined():
        print(f"kernellab: warning: {words}", file=sys.stderr)


def _write(file: Path, text: str) -> None:
    # No one named the usual one: in a shared folder, a link of that name is someone else's.
    system.save_whole(file, text.encode(), is_named=file != _DEMO_REPORT)
    kilobytes = file.stat().st_size / 1000
    print(f"Report: {file} ({kilobytes:,.0f} kB, opens in any browser)")


_COMMANDS = (
    _demo, _doctor, _compile, _judge, _mcp, _profile, _view, _test_on_cpu, _workshop,
)  # fmt: skip
COMMANDS = [_name_of(command) for command in _COMMANDS]
_MORE = {_profile: (as_a_tree,), _view: (as_a_tree,)}
"""A command -> functions that declare more of its options."""
