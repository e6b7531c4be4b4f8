"""The magics of one launch: `%tilecheck`, `%tiledebug`, `%tilediagnose`, `%tileequal`,
`%tileprofile` (with %% of all launches of a cell), `%tilestep`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernellab.common.arguments import names_in, read_names, read_program, read_whole_number
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import RunningCell, Shell
from kernellab.magics.magic import (
    Option,
    Options,
    cell_magic,
    expected,
    launch_on_line,
    line_magic,
    options_before,
    read_launch,
    read_path,
    read_variable,
    stated,
    value_at,
)

if TYPE_CHECKING:
    from kernellab.checker.records import Findings
    from kernellab.equality.records import Equality
    from kernellab.profiling.diagnosis.records import Diagnoses, Diagnosis
    from kernellab.profiling.profiles.profile import Profile
    from kernellab.tracing.records import Trace

# `%tilecheck`: a launch with every detector of the checker on.

CHECK_OPTIONS = Options(
    "tilecheck",
    (
        Option(
            "--outputs",
            "NAMES",
            "Arguments that the kernel must write as a whole: z_ptr, or z_ptr,sums_ptr. "
            "May be repeated.",
            read_names,
            repeated=True,
        ),
        Option(
            "--expect",
            "NAME",
            "A variable that holds right results by parameter, or a function that computes them: "
            "of the kernel's parameters by their names, or of the tensors that it reads.",
            read_path,
        ),
        Option(
            "--target",
            "GPU",
            "The GPU to emulate: sm_90, gfx942, ...; by default the kernel's own.",
        ),
        Option(
            "--most-turns",
            "N",
            "A while loop with more iterations is stopped and reported as endless; "
            "100000 by default.",
            read_whole_number,
        ),
        Option(
            "--late",
            "",
            "Check the compiled kernel (TTGIR), whose asynchronous copies, TMA and matmuls "
            "complete as late as they may; Gluon kernels are always checked so.",
        ),
    ),
    sigil="%",
)

_CHECK_HELP = """Run a launch on the CPU with every detector enabled, and report each fault once.

It runs on copies: tensors stay as they are. Out-of-bounds accesses, races between programs,
reads of uninitialized memory (kernellab.uninitialized), unwritten outputs, lanes that collide,
missing other=, index overflow, broken hints, NaN, deadlocks, loops without end, results that
depend on the order.

Options, before the launch:

{options}

Examples:

  %tilecheck add[grid](x, y, z, n, BLOCK=1024)
      Check the launch.

  found = %tilecheck --outputs z_ptr add[grid](x, y, z, n, BLOCK=1024)
      Check too that every element of z is written, and keep what is found:
      found[0].line, found.table().

  %tilecheck --expect torch.add add[grid](x, y, z, n, BLOCK=1024)
      Compare z with torch.add(x, y), too: the first element that is off, and the line and the
      program that wrote it.
"""


@line_magic(CHECK_OPTIONS, _CHECK_HELP.format(options=CHECK_OPTIONS.help()))
def tilecheck(shell: Shell, line: str) -> Findings:
    """Check the launch on a line."""
    launch, given, position = launch_on_line(shell, CHECK_OPTIONS, line)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.checker.check import check

    own = stated(given, "target", "most_turns") | expected(
        given, shell, CHECK_OPTIONS.magic, position
    )
    if given["outputs"]:
        own["outputs"] = [name for names in given["outputs"] for name in names]
    if given["late"]:
        launch = replace(launch, keywords={**launch.keywords, "stage": "ttgir"})
    return check(launch, **own)


# `%tiledebug`: a launch in the debugger.

DEBUG_OPTIONS = Options(
    "tiledebug",
    (
        Option(
            "--program",
            "X,Y,Z",
            "The id of a program to stop in: 96, or 2,1,0; 0,0,0 by default. May be repeated.",
            read_program,
            repeated=True,
        ),
        Option(
            "--break",
            "PLACE",
            'Where to stop: a line of the cell or file (14), with a condition ("14, x.max() > '
            '10"), or a function that the kernel calls (helper). May be repeated. Without any the '
            "debugger stops at the kernel's first line.",
            repeated=True,
        ),
        Option(
            "--in-place",
            "",
            "Let the launch change the tensors, once it has come to its end. By default it "
            "runs on copies.",
        ),
    ),
    sigil="%",
)

_DEBUG_HELP = """Run a launch in the debugger, on the kernel's own lines.

The whole grid runs; the debugger stops in one program, at the kernel's first line or at
breakpoints. n, s, u, d, b, p, display and all else are as in %debug. Names are the kernel's: tiles
are NumPy arrays, pointer arguments show their tensors. s enters helper functions and Triton's own,
such as tl.sum. A breakpoint() in the kernel is a place to stop. q ends the launch and leaves every
tensor as it was.

Options, before the launch:

{options}

Examples:

  %tiledebug add[grid](x, y, z, n, BLOCK=1024)
      Stop at the first line of program (0, 0, 0).

  %tiledebug --program 96 --break "7, x.max() > 10" add[grid](x, y, z, n, BLOCK=1024)
      Stop in program (96, 0, 0) on line 7, when the tile x has a value above 10.
"""


@line_magic(DEBUG_OPTIONS, _DEBUG_HELP.format(options=DEBUG_OPTIONS.help()))
def tiledebug(shell: Shell, line: str) -> None:
    """Debug the launch on a line."""
    launch, given, _ = launch_on_line(shell, DEBUG_OPTIONS, line)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.debugger import debug

    said = {
        "program": given["program"],
        "breakpoints": given["break"],
        "in_place": given["in_place"],
    }
    options: dict[str, Any] = {name: value for name, value in said.items() if value}
    debug(launch, **options)


# `%tilediagnose`: why a launch is slow, what costs most first.

DIAGNOSE_OPTIONS = Options(
    "tilediagnose",
    (
        Option(
            "--target",
            "GPU",
            "The GPU that it is compiled for: sm_90, gfx942, ...; by default the kernel's own.",
        ),
        Option(
            "--of",
            "NAME",
            "Instead of a launch: a variable that holds a compilation, a profile, a sweep, a "
            "report of torch.compile, or what was counted of accesses.",
            read_path,
        ),
    ),
    sigil="%",
)

_DIAGNOSE_HELP = """\
Say why a launch is slow: findings ranked by what they cost, each with its line, its
evidence and what to change. Nothing is timed, and no GPU is needed.

Options, before the launch:

{options}

Examples:

  %tilediagnose matmul[grid](a, b, c, M, N, K, BM=128, BN=128, BK=64)
      Diagnose the launch.

  why = %tilediagnose --target sm_100 matmul[grid](a, b, c, M, N, K, BM=128, BN=128, BK=64)
      The same for another GPU, kept: why[0].kind, why[0].cost, why.table().

  %tilediagnose --of sweep
      Diagnose what a variable holds.
"""


@line_magic(DIAGNOSE_OPTIONS, _DIAGNOSE_HELP.format(options=DIAGNOSE_OPTIONS.help()))
def tilediagnose(shell: Shell, line: str) -> Diagnosis | Diagnoses:
    """Diagnose the launch on a line, or what a variable holds."""
    given, rest, position = options_before(shell, DIAGNOSE_OPTIONS, line)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.profiling.diagnosis.diagnose import diagnose

    own = stated(given, "target")
    if given["of"] is not None and not rest.strip():
        place = position(given["of"])
        return diagnose(
            value_at(given["of"], shell.user_ns, DIAGNOSE_OPTIONS.magic, place, "--of"), **own
        )
    launch = read_launch(rest, shell.user_ns, DIAGNOSE_OPTIONS.magic, position(""))
    return diagnose(launch.kernel, *launch.args, grid=launch.grid, **own, **launch.keywords)


# `%tileequal`: whether a launch computes what another kernel or a function of torch computes.

EQUAL_OPTIONS = Options(
    "tileequal",
    (
        Option(
            "--with",
            "NAME",
            "What it is compared with: a kernel that takes the same launch, a launch from "
            "kernellab.bind, or a function of torch.",
            read_path,
        ),
        Option(
            "--seeds", "N", "How many sets of random residues; 3 by default.", read_whole_number
        ),
        Option("--target", "GPU", "The GPU to compile for: sm_90, gfx942, ..."),
        Option(
            "--rounding",
            "HOW",
            '"ignored", the default, or "kept": whether results in formats narrower than float32 '
            "must round the same numbers.",
        ),
    ),
    sigil="%",
)

_EQUAL_HELP = """\
Decide whether a launch computes the same as something else, for all inputs of its sizes.

Both run on the CPU with residues in place of floats, so that rounding and the order of sums do not
count: see docs/equality.md. Tensors stay as they are.

Options, before the launch:

{options}

Examples:

  %tileequal --with torch.add add[grid](x, y, z, n, BLOCK=1024)
      Compare z with torch.add(x, y).

  %tileequal --with online_softmax softmax[grid](x, y, n, BLOCK=1024)
      Compare two kernels.
"""


@line_magic(EQUAL_OPTIONS, _EQUAL_HELP.format(options=EQUAL_OPTIONS.help()))
def tileequal(shell: Shell, line: str) -> Equality:
    """Compare the launch on a line with something else."""
    launch, given, position = launch_on_line(shell, EQUAL_OPTIONS, line)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.equality.equal import equal
    from kernellab.errors import OptionError

    path = given["with"]
    if path is None:
        raise OptionError(
            "%tileequal needs --with: the kernel or the function to compare with.",
            position=position(""),
            advice="For example %tileequal --with torch.add add[grid](x, y, z, n, BLOCK=1024).",
        )
    other = value_at(path, shell.user_ns, EQUAL_OPTIONS.magic, position(path), "--with")
    own = stated(given, "seeds", "target", "rounding")
    return equal(launch, other, **own)


# `%tileprofile`: a launch, profiled; `%%tileprofile`: all launches of a cell.

_PROFILE_OPTIONS = (
    Option(
        "--backend",
        "WHO",
        "Who measures: interpreter, or Proton's cupti and roctracer.",
        values=names_in("kernellab.profiling.profiles.session:BACKENDS"),
    ),
    Option(
        "--mode",
        "MODE",
        "Of Proton: pcsampling for samples of lines.",
        values=lambda: ["pcsampling"],
    ),
    Option("--save", "FILE", "Where the profile goes too: p.hatchet.", os.path.expanduser),
)
PROFILE_LINE_OPTIONS = Options(
    "tileprofile",
    (
        *_PROFILE_OPTIONS,
        Option(
            "--detail",
            "HOW",
            "How finely a GPU's cycles are measured: operations, lines, loops, program.",
            values=names_in("kernellab.profiling.profiles.line_marks:DETAILS"),
        ),
    ),
    sigil="%",
)

PROFILE_CELL_OPTIONS = Options(
    "tileprofile",
    (
        *_PROFILE_OPTIONS,
        Option(
            "--context",
            "WHAT",
            "What launches are below: shadow, the scopes of the cell; python, also frames.",
            values=lambda: ["shadow", "python"],
        ),
        Option(
            "--name", "VARIABLE", "Variable for the Profile: profile by default.", read_variable
        ),
    ),
)

_PROFILE_HELP = """Profile a launch, line by line; with %% all launches of a cell.

On a GPU one launch gets cycles by line, and a cell is a session of Proton's. With tensors on the
CPU the launches run on the interpreter: time on this CPU, executions, bytes and floating-point
operations of each line, which are not a GPU's time.

Options of %tileprofile, before the launch:

{line}

Options of %%tileprofile:

{cell}

Examples:

  %tileprofile matmul[grid](a, b, c, M, N, K)
      Profile the launch. found = %tileprofile ... keeps the Profile: found.lines, found.plot().

  %%tileprofile --context python --save step.hatchet
  model.step(x)
      Profile all that the cell launches; the Profile is in the variable `profile`.
"""


_PROFILE_DOC = _PROFILE_HELP.format(
    line=PROFILE_LINE_OPTIONS.help(), cell=PROFILE_CELL_OPTIONS.help()
)


@line_magic(PROFILE_LINE_OPTIONS, _PROFILE_DOC)
def tileprofile(shell: Shell, line: str) -> Profile:
    """Profile the launch on a line."""
    launch, given, _ = launch_on_line(shell, PROFILE_LINE_OPTIONS, line)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.profiling.profiles.session import profile

    own = stated(given, "backend", "mode", "detail")
    measured: Profile = profile(launch, **own)
    if given["save"] is not None:
        measured.save(given["save"])
    return measured


@cell_magic(PROFILE_CELL_OPTIONS, _PROFILE_DOC)
def tileprofile_of_cell(running: RunningCell, line: str, body: str) -> None:
    """Profile all that a cell launches."""
    given = PROFILE_CELL_OPTIONS.parse(line, running.position)
    from kernellab.profiling.profiles.session import profile

    with profile(**stated(given, "backend", "mode", "context")) as session:
        ipython_api.execute(running, body)
    running.shell.user_ns[given["name"] or "profile"] = session.profile
    if given["save"] is not None:
        session.profile.save(given["save"])
    ipython_api.show(session.profile)


# `%tilestep`: a launch traced, and shown step by step.

STEP_OPTIONS = Options(
    "tilestep",
    (
        Option(
            "--program",
            "X,Y,Z",
            "The id of a program to trace: 96, or 2,1,0; 0,0,0 by default. May be repeated.",
            read_program,
            repeated=True,
        ),
        Option("--all", "", "Trace every program of the grid."),
        Option(
            "--expect",
            "NAME",
            "A variable that holds right results by parameter, or a function that computes them, "
            "as for %tilecheck: the stepper opens where the first wrong element was written.",
            read_path,
        ),
        Option("--operations", "", "One step for each operation of the IR, not for each line."),
        Option(
            "--exact-bytes",
            "N",
            "The largest value that is kept exactly, 65536 by default. Larger ones are computed "
            "again when they are asked for.",
            read_whole_number,
        ),
        Option(
            "--in-place",
            "",
            "Let the launch change the tensors. By default it runs on copies.",
        ),
    ),
    sigil="%",
)

_STEP_HELP = """Trace a launch, and show it step by step, forwards and backwards.

The whole grid runs; of one program every line is kept, with the variables that it changed and the
elements that it accessed. The result is a Trace: `t = %tilestep add[grid](...)` keeps it, and
t.at(5), t.find(...), t.history("acc"), t.diff(other) and t.save(path) use it.

Options, before the launch:

{options}

Examples:

  %tilestep add[grid](x, y, z, n, BLOCK=1024)
      The steps of program (0, 0, 0).

  %tilestep --program 2,1 --operations matmul[grid](a, b, c)
      The operations of program (2, 1, 0).

  %tilestep --expect torch.add add[grid](x, y, z, n, BLOCK=1024)
      The step that wrote the first element of z that is not torch.add(x, y).
"""


@line_magic(STEP_OPTIONS, _STEP_HELP.format(options=STEP_OPTIONS.help()))
def tilestep(shell: Shell, line: str) -> Trace:
    """Trace the launch on a line."""
    launch, given, position = launch_on_line(shell, STEP_OPTIONS, line)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.tracing.launches import trace

    names = ("operations", "in_place", "exact_bytes")
    options: dict[str, Any] = {name: given[name] for name in names if given[name]}
    options |= expected(given, shell, STEP_OPTIONS.magic, position)
    if given["all"] or given["program"]:
        options["programs"] = "all" if given["all"] else given["program"]
    return trace(launch, **options)
