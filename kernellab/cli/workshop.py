"""`kernellab workshop`: a student's folder, its answers, a class at a glance."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernellab.cli import doctor
from kernellab.common.saved_files import save_whole


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
    from kernellab.workshop.folders import write_folder

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
    from kernellab.workshop.grading import grade_folder

    grades = grade_folder(options.folder)
    print(grades.json() if options.json else grades)
    return 1 if grades.problems else 0


def _report(options: argparse.Namespace) -> int:
    from kernellab.viz.exercises.report import grades_page
    from kernellab.workshop.grading import grade_class

    grades = grade_class(options.folders)
    print(grades.json() if options.json else grades)
    if options.output is not None:
        save_whole(options.output, grades_page(grades).encode())
    return 1 if grades.problems else 0
