"""The command line: `kernellab demo`, `doctor`, `compile`, `judge`, `mcp`, `profile`, `view`,
`test-on-cpu`, `workshop`.

Each command imports what it needs when it runs, so that `kernellab --help` answers at once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.cli import doctor
from kernellab.common.arguments import (
    later,
    read_constexprs,
    read_warps,
    read_whole_number,
    spread_constexprs,
    stated_by_options,
)
from kernellab.common.saved_files import kernellab_version
from kernellab.common.system import (
    abandon_output,
    check_place,
    escape_unknown_letters,
    hold_standard_descriptors,
    save_whole,
)
from kernellab.errors import CompileError, KernelLabError, MissingArguments, suggestion

if TYPE_CHECKING:
    from kernellab.compiler.compilations import Compilation

# The options of `kernellab profile` and `kernellab view`: quick to import, for the help.


def add_profile_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kernellab profile`."""
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help=_OUTPUT)
    parser.add_argument(
        "--mode", choices=("pcsampling",), help="Proton samples the lines of kernels, on a GPU"
    )
    parser.add_argument(
        "--context", choices=("shadow", "python"), default="shadow", help="python: frames too"
    )
    add_tree_options(parser)
    parser.add_argument("script", metavar="SCRIPT", help="a Python file, which is run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")


_OUTPUT = "where the profile goes: p.hatchet is Proton's form, p.speedscope.json speedscope's"


def add_tree_options(parser: argparse.ArgumentParser) -> None:
    """How a profile is printed."""
    parser.add_argument("-m", "--metrics", metavar="METRICS", help="time/ms,tflop16/s: as a tree")
    parser.add_argument("-i", "--include", metavar="PATTERN", help="only paths through such names")
    parser.add_argument("-e", "--exclude", metavar="PATTERN", help="without such names")
    parser.add_argument("-t", "--threshold", metavar="N", type=float, help="of the first metric")
    parser.add_argument("-d", "--depth", metavar="N", type=int, help="levels of the tree")


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kernellab view`."""
    parser.add_argument("file", metavar="FILE", help="p.hatchet, or whatever kernellab.load opens")
    parser.add_argument("--diff", metavar="FILE", help="another profile: this one less that one")
    parser.add_argument("-l", "--list", action="store_true", help="list the metrics")
    add_tree_options(parser)


# `kernellab workshop`: a student's folder, its answers, a class at a glance.


def add_workshop_options(parser: argparse.ArgumentParser) -> None:
    """The commands below `kernellab workshop`, each with its `run`."""
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    init = below.add_parser(
        "init", help="write a student's folder: the course, exercises; is the machine ready?"
    )
    init.add_argument("folder", metavar="DIR", type=Path)
    init.set_defaults(run=_init)

    check = below.add_parser(
        "check", help="answer every exercise of a folder; its code runs in confined processes"
    )
    check.add_argument("folder", metavar="DIR", type=Path, nargs="?", default=Path())
    check.add_argument("--json", action="store_true", help="the same for machines, on one line")
    check.set_defaults(run=_check)

    report = below.add_parser(
        "report",
        help="a class at a glance: each folder is graded in a separate process",
    )
    report.add_argument("folders", metavar="DIR", type=Path, nargs="+")
    report.add_argument("--json", action="store_true", help="the same for machines, on one line")
    report.add_argument("-o", "--output", metavar="FILE", type=Path, help="write a page, too")
    report.set_defaults(run=_report)


def _init(options: argparse.Namespace) -> int:
    from kernellab.workshop.course import write_folder

    written = write_folder(options.folder)
    for file in written:
        print(file)
    if not written:
        print(f"{options.folder} has everything already; nothing was written")
    return _say_whether_ready()


def _say_whether_ready() -> int:
    """Whether the notebooks will run here; where not, what the doctor says of it."""
    findings = doctor.examine()
    if doctor.healthy(findings):
        print("This machine is ready.")
        return 0
    print(doctor.report_text([finding for finding in findings if finding.state == "missing"]))
    return 1


def _check(options: argparse.Namespace) -> int:
    from kernellab.workshop.grader import grade_folder

    _say_what_is_not_confined()
    grades = grade_folder(options.folder)
    print(grades.json() if options.json else grades)
    return 1 if grades.problems else 0


def _say_what_is_not_confined() -> None:
    from kernellab.judging.confinement import unconfined

    for words in unconfined():
        print(f"kernellab: warning: {words}", file=sys.stderr)


def _report(options: argparse.Namespace) -> int:
    from kernellab.viz.pages import grades_page
    from kernellab.workshop.grader import grade_class

    _say_what_is_not_confined()
    grades = grade_class(options.folders)
    print(grades.json() if options.json else grades)
    if options.output is not None:
        save_whole(options.output, grades_page(grades).encode())
    return 1 if grades.problems else 0


_DEMO_REPORT = Path("kernellab-demo.html")
COMMANDS = (
    "demo", "doctor", "compile", "judge", "mcp", "profile", "view", "test-on-cpu", "workshop",
)  # fmt: skip

FOUND_SOMETHING = 1
"""Exit status: the command ran, and something is not as it should be."""
BAD_INPUT = 2
"""Exit status: the command could not do what it was asked for."""
CUT_OFF = 141
"""Exit status: no one reads the output any more; a shell's for SIGPIPE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status;
    `arguments` are sys.argv's without the program.
    """
    hold_standard_descriptors()
    escape_unknown_letters()
    try:
        try:
            return _command(arguments)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # Whoever read has seen enough: `kernellab doctor | head -1`.
        abandon_output()
        return CUT_OFF
    except OSError as error:
        if _can_print():
            raise
        abandon_output()
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
    """Run one command; what goes wrong is said on stderr."""
    parser = _parser()
    words = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(spread_constexprs(words))
    try:
        return int(options.command(options))
    except KernelLabError as error:
        print(f"kernellab: {error}", file=sys.stderr)
    except (ImportError, MemoryError, OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # Of files and streams; a library that does not fit into memory has no number.
        from kernellab.common.system import system_fault

        fault = system_fault(error, "this command cannot run")
        if fault is None and getattr(error, "name", "") is not None:
            raise  # A real failure to import; ours carry words and no name.
        print(f"kernellab: {fault or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("kernellab: stopped", file=sys.stderr)
    return BAD_INPUT


class _Parser(argparse.ArgumentParser):
    """Says which word was probably meant."""

    def error(self, message: str) -> Any:
        if "invalid choice: " in message:
            word = message.split("invalid choice: ")[1].split("'")[1]
            advice = suggestion(word, COMMANDS, "There are")
            message = f"there is no command {word!r}. {advice}"
        super().error(message)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Without argparse's silence where nothing can be written."""
        stream = file or sys.stderr
        if stream is not None:
            stream.write(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="kernellab", description="A lab for tile kernels.")
    parser.add_argument("--version", action="version", version=f"kernellab {kernellab_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    demo = commands.add_parser(
        "demo",
        help="run five kernels on the CPU, check them against torch, compile them, write a report",
        description=(
            "Run five kernels at real sizes on the CPU, check each against torch, compile "
            "each for sm_90, print a table and write one self-contained HTML report."
        ),
    )
    demo.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        default=_DEMO_REPORT,
        help="where the report goes (default: %(default)s)",
    )
    demo.set_defaults(command=_demo)

    doctor = commands.add_parser(
        "doctor",
        help="say what is installed, whether it fits together, and what is missing",
        description=(
            "Say what is installed, whether it fits together, which GPU is here, and what "
            "is missing. The exit status is 1 where something that the lab needs is "
            "missing or broken."
        ),
    )
    doctor.add_argument(
        "--json", action="store_true", help="the same for machines: a list of diagnostics"
    )
    doctor.set_defaults(command=_doctor)

    compile_ = commands.add_parser(
        "compile",
        help="compile one kernel of a Python file for one GPU or several",
        description=(
            "Compile one kernel of a Python file through Triton's whole pipeline; no GPU is needed."
        ),
    )
    _add_compile_options(compile_)
    compile_.set_defaults(command=_compile)

    judge = commands.add_parser(
        "judge",
        help="one verdict on a kernel, or on a function that launches kernels",
        description=(
            "Judge a submission against a reference. Its Python runs in a confined process on "
            "random numbers; its launches are replayed with the real inputs. The exit status is 1 "
            "if it is not accepted."
        ),
    )
    _add_judge_options(judge)
    judge.set_defaults(command=_judge)

    mcp = commands.add_parser(
        "mcp",
        help="serve KernelLab's functions to an agent, by the Model Context Protocol",
        description="Serve judge, compile, explain, check, step, diagnose, equal and search over "
        "stdin and stdout. It needs the extra: pip install 'kernellab[mcp]'.",
    )
    mcp.set_defaults(command=_mcp)

    profile = commands.add_parser(
        "profile",
        help="run a script and say what its kernels and their lines take",
        description=(
            "Run a Python script and report the time of its kernels and their lines: measured on "
            "a GPU by Proton; otherwise the interpreter's time, which does not predict a GPU's. "
            "The exit status is the script's."
        ),
    )
    add_profile_options(profile)
    profile.set_defaults(command=later("kernellab.cli.user_code:profile_script"))

    view = commands.add_parser(
        "view",
        help="show a saved profile, a .hatchet of Proton's, or another saved record",
        description="Show a saved profile: its kernels with their shares, or a tree of metrics.",
    )
    add_view_options(view)
    view.set_defaults(command=later("kernellab.cli.user_code:view_file"))

    tests = commands.add_parser(
        "test-on-cpu",
        help="run a library's GPU tests without a GPU, and say what ran and what was found",
        description=(
            "Run a command that runs pytest, with torch reporting a GPU that does not exist and "
            "all Triton kernels on the interpreter. Afterwards, report what was launched, what "
            "KernelLab does not run and why, and the faults that were found. The exit status is "
            "the command's."
        ),
    )
    _add_test_options(tests)
    tests.set_defaults(command=later("kernellab.cli.user_code:run_tests"))

    workshop = commands.add_parser(
        "workshop",
        help="exercises: a student's folder, its answers, a class at a glance",
        description="Write a student's folder of exercises, answer it, or report on a class.",
    )
    add_workshop_options(workshop)
    workshop.set_defaults(command=lambda options: options.run(options))
    return parser


def _add_compile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kernel", metavar="FILE::KERNEL", help="the file, which is run, and the kernel's name in it"
    )
    parser.add_argument(
        "--sig",
        metavar="TYPES",
        help=(
            'the argument types: "*fp32:16, *fp32, i32"; ":16" promises divisibility by 16; an '
            'entry may be named: "n=i32"'
        ),
    )
    parser.add_argument(
        "--constexpr",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_reader(read_constexprs),
        help=(
            "the value of a tl.constexpr parameter; several with commas or blanks between them: "
            "BM=64,BN=32"
        ),
    )
    parser.add_argument(
        "--target",
        metavar="GPU[,GPU...]",
        help="sm_80, sm_90, gfx942, ...; this machine's GPU, else sm_90, where left out",
    )
    parser.add_argument(
        "--num-warps", metavar="N", type=_reader(read_warps), help="warps per program"
    )
    parser.add_argument(
        "--num-stages",
        metavar="N",
        type=_reader(read_whole_number),
        help="stages of the software pipeline",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="write an HTML report: every pass and every stage, in the IR explorer",
    )


def _add_judge_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "submission", metavar="FILE::NAME", help="a kernel, a function, or a class to judge"
    )
    parser.add_argument(
        "--reference",
        metavar="FILE::NAME",
        required=True,
        help="a function or a class that computes the right results, in a file that is trusted; or "
        "the folder of a task of GPU MODE or robust-kbench",
    )
    parser.add_argument(
        "--cases",
        metavar="FILE",
        help="a trusted file that defines `cases` or `get_inputs`; else that of the reference",
    )
    parser.add_argument(
        "--target", metavar="GPU[,GPU...]", default="sm_90", help="sm_80, sm_90, gfx942, ..."
    )
    parser.add_argument(
        "--unseen",
        metavar="KINDS",
        default="values,shapes,strides",
        help="what further cases are made of the given ones (%(default)s)",
    )
    parser.add_argument(
        "--budget", metavar="US", type=float, help="the most microseconds, by the estimate"
    )
    parser.add_argument(
        "--claimed", metavar="US", type=float, help="microseconds that the submission claims"
    )
    for name in ("rtol", "atol"):
        parser.add_argument(
            f"--{name}", metavar="NUMBER", type=float, help=f"how far an element may be off: {name}"
        )
    budgets = parser.add_mutually_exclusive_group()
    budgets.add_argument(
        "--lock", metavar="FILE", help="reject kernels that cost more than this file allows"
    )
    budgets.add_argument(
        "--update", metavar="FILE", help="write what the kernels cost to this file"
    )
    budgets.add_argument(
        "--triton",
        metavar="ENVIRONMENT[,...]",
        help="reject kernels that cost more than with the Triton of other virtual environments; "
        "each is a folder, or the version of its Triton",
    )
    parser.add_argument("--json", action="store_true", help="the same for machines, on one line")
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write JUnit XML for CI, too")
    parser.add_argument("--sarif", metavar="FILE", type=Path, help="write SARIF for CI, too")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write a page, too")


def _add_test_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target", metavar="GPU", default="sm_90", help="the GPU that torch reports (sm_90)"
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, dest="report", help="write every event to a file, too"
    )
    parser.add_argument(
        "words",
        metavar="COMMAND",
        nargs=argparse.REMAINDER,
        help="the command that runs the tests: pytest tests/ops -x",
    )


def _reader(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader whose ValueError argparse shows in its own words."""

    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None

    return convert


def _judge(options: argparse.Namespace) -> int:
    from kernellab.judging.worker import start_worker

    start_worker()  # before torch and Triton are imported here
    from kernellab.cli.tasks import judged_task, locked_elsewhere
    from kernellab.judging.judge import judge

    with judged_task(options.reference, options.cases) as task, locked_elsewhere(options) as others:
        for lock in others or [options.lock or options.update]:
            verdict = judge(
                options.submission, task.reference, task.cases, targets=options.target,
                init=task.init, baseline=options.budget, claimed=options.claimed,
                rtol=options.rtol, atol=options.atol,
                unseen=tuple(filter(None, options.unseen.split(","))),
                lock=lock, update=options.update is not None, imports=task.imports,
            )  # fmt: skip
            if not verdict:
                break
    print(verdict.json() if options.json else verdict)
    if options.junit is not None:
        save_whole(options.junit, verdict.junit().encode())
    if options.sarif is not None:
        save_whole(options.sarif, json.dumps(verdict.sarif(), indent=1).encode())
    if options.output is not None:
        from kernellab.viz.exercises import verdict_card
        from kernellab.viz.kit.page import Html, page

        card = Html(verdict_card(verdict).html())
        save_whole(options.output, page(verdict.submission, Html(""), [card]).encode())
    return 0 if verdict else FOUND_SOMETHING


def _mcp(_: argparse.Namespace) -> int:
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


def _demo(options: argparse.Namespace) -> int:
    from kernellab.cli.demo import all_cases
    from kernellab.cli.demo.report import demo_report, results_table, run_case
    from kernellab.viz.kit.page import text_table

    check_place(options.output)
    results = []
    for case in all_cases():
        print(f"{case.name}, {case.size} ...", end=" ", flush=True)
        result = run_case(case)
        remark = f" ({result.remark})" if result.remark else ""
        print(f"{'pass' if result.passed else 'FAIL'}{remark}")
        results.append(result)
    print()
    print(text_table(results_table(results)))
    print()
    _write(options.output, demo_report(results))
    return 0 if all(result.passed for result in results) else FOUND_SOMETHING


def _doctor(options: argparse.Namespace) -> int:
    from kernellab.cli.doctor import examine, healthy, report_text

    findings = examine()
    if options.json:
        print(json.dumps([finding.to_json() for finding in findings], indent=2))
    else:
        print(report_text(findings))
    return 0 if healthy(findings) else FOUND_SOMETHING


def _compile(options: argparse.Namespace) -> int:
    if options.output is not None:
        check_place(options.output)
    try:
        compilations = _compilations(options)
    except CompileError as error:
        if options.output is not None:
            _write(options.output, _report_of_failure(error))
        raise
    from kernellab.viz.kernels import kernel_card
    from kernellab.viz.kit.page import text_table
    from kernellab.viz.pages import resources_table

    if len(compilations) == 1:
        known_from = dict.fromkeys(_constants(options), "--constexpr")
        print(kernel_card(compilations[0], known_from=known_from).text())
    else:
        print(text_table(resources_table(compilations)))
    if options.output is not None:
        from kernellab.viz.pages import compilation_report

        print()
        _write(options.output, compilation_report(compilations))
    return 0


def _report_of_failure(error: CompileError) -> str:
    """A page that shows how far a compilation came."""
    from kernellab.records.display import show
    from kernellab.viz.kit.page import Section, page_of_views

    view = show(error)
    return page_of_views(view.title, [Section("", view, ())])


def _compilations(options: argparse.Namespace) -> list[Compilation]:
    """Compile the kernel that the options name, for each target that they name."""
    from kernellab.cli.user_code import load_kernel
    from kernellab.compiler.arguments import parse_signature
    from kernellab.compiler.binding import bind
    from kernellab.compiler.kernels import InductorKernel, assume, unwrap_kernel
    from kernellab.compiler.pipeline import compile_bound
    from kernellab.compiler.targets import DEFAULT_TARGET, local_target, parse_targets

    constants = _constants(options)
    stated = {"num_warps": options.num_warps, "num_stages": options.num_stages}
    given = {name: value for name, value in stated.items() if value is not None}
    record = "stages" if options.output is None else "passes"
    kernel = load_kernel(options.kernel)
    args, named = parse_signature(options.sig or "")
    kernel, named = unwrap_kernel(kernel, args, named, constants)
    if options.target is not None:
        targets = parse_targets(options.target)
    elif isinstance(kernel, InductorKernel):
        targets = [kernel.target]
    else:
        targets = [local_target() or DEFAULT_TARGET]
    if options.sig is None:
        named |= assume(kernel, constants)
    try:
        calls = [
            bind(kernel, args, named, target, options=given, constants=constants)
            for target in targets
        ]
    except MissingArguments as error:
        error.advice = stated_by_options(error)
        raise
    return [
        compile_bound(kernel, call, target, record=record)
        for call, target in zip(calls, targets, strict=True)
    ]


def _constants(options: argparse.Namespace) -> dict[str, Any]:
    return dict(chain.from_iterable(options.constexpr))


def _write(file: Path, text: str) -> None:
    # No one named the usual one: in a shared folder, a link of that name is someone else's.
    save_whole(file, text.encode(), is_named=file != _DEMO_REPORT)
    kilobytes = file.stat().st_size / 1000
    print(f"Report: {file} ({kilobytes:,.0f} kB, opens in any browser)")
