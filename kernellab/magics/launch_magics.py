"""The magics of one launch: `%tilecheck`, `%tiledebug`, `%tilediagnose`, `%tileequal`,
`%tileprofile` (with %% of all launches of a cell), `%tilestep`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from kernellab.common.arguments import names_in, option, read_names, read_program, read_whole_number
from kernellab.errors import OptionError
from kernellab.magics import ipython_api, magic

if TYPE_CHECKING:
    from kernellab.checker.records import Findings
    from kernellab.equality.records import Equality
    from kernellab.profiling.diagnosis.records import Diagnoses, Diagnosis
    from kernellab.profiling.profiles.profile import Profile
    from kernellab.tracing.records import Trace

# The functions of these magics are imported when one runs: torch and Triton take longer than the
# rest of loading the extension.


@magic.magic("line")
def tilecheck(
    line: magic.Line,
    *,
    outputs: Sequence[Sequence[str]] = option(read_names, repeated=True),
    expect: str | None = option(magic.read_path),
    target: str | None = option(),
    most_turns: int | None = option(read_whole_number),
    late: bool = option(),
) -> Findings:
    """Run a launch on the CPU with every detector enabled, and report each fault once.

    It runs on copies, so tensors do not change. It reports out-of-bounds accesses, races, reads of
    uninitialized memory (kernellab.uninitialized), unwritten outputs, colliding lanes, missing
    other=, index overflow, broken hints, NaN, deadlocks, endless loops, and results that depend on
    the order of programs.

    Options, before the launch:

      --outputs NAMES
          Arguments that the kernel must write as a whole: z_ptr, or z_ptr,sums_ptr. May be
          repeated.
      --expect NAME
          A variable that holds right results by parameter, or a function that computes
          them: of the kernel's parameters by their names, or of the tensors that it reads.
      --target GPU
          The GPU to emulate: sm_90, gfx942, ...; by default the kernel's own.
      --most-turns N
          A while loop with more iterations is stopped and reported as endless; 100000 by
          default.
      --late
          Check the compiled kernel (TTGIR), whose asynchronous copies, TMA and matmuls
          complete as late as they may; Gluon kernels are always checked so.

    Examples:

      %tilecheck add[grid](x, y, z, n, BLOCK=1024)
          Check the launch.

      found = %tilecheck --outputs z_ptr add[grid](x, y, z, n, BLOCK=1024)
          Check too that every element of z is written, and keep what is found:
          found[0].line, found.table().

      %tilecheck --expect torch.add add[grid](x, y, z, n, BLOCK=1024)
          Also compare z with torch.add(x, y): the first element that differs, and the line and the
          program that wrote it.
    """
    from kernellab.checker.check import check

    launch = magic.read_launch(line)
    own = magic.stated(target=target, most_turns=most_turns, expect=line.value(expect, "--expect"))
    if outputs:
        own["outputs"] = list(chain.from_iterable(outputs))
    if late:
        launch = replace(launch, keywords={**launch.keywords, "stage": "ttgir"})
    return check(launch, **own)


@magic.magic("line")
def tiledebug(
    line: magic.Line,
    *,
    program: Sequence[tuple[int, ...]] = option(read_program, repeated=True),
    break_: Sequence[str] = option(repeated=True),
    in_place: bool = option(),
) -> None:
    """Run a launch in the debugger, on the kernel's own lines.

    The whole grid runs; the debugger stops in one program, at the kernel's first line or at
    breakpoints. n, s, u, d, b, p, display and all else are as in %debug. Names are the kernel's:
    tiles are NumPy arrays, pointer arguments show their tensors. s enters helper functions and
    Triton's own, such as tl.sum. A breakpoint() in the kernel is a place to stop. q ends the launch
    and leaves every tensor as it was.

    Options, before the launch:

      --program X,Y,Z
          The id of a program to stop in: 96, or 2,1,0; 0,0,0 by default. May be repeated.
      --break PLACE
          Where to stop: a line of the cell or file (14), with a condition ("14, x.max() >
          10"), or a function that the kernel calls (helper). May be repeated. Without any
          the debugger stops at the kernel's first line.
      --in-place
          Let the launch change the tensors when it has ended. By default it runs on copies.

    Examples:

      %tiledebug add[grid](x, y, z, n, BLOCK=1024)
          Stop at the first line of program (0, 0, 0).

      %tiledebug --program 96 --break "7, x.max() > 10" add[grid](x, y, z, n, BLOCK=1024)
          Stop in program (96, 0, 0) on line 7, when the tile x has a value above 10.
    """
    launch = magic.read_launch(line)
    from kernellab.debugger import debug

    own: dict[str, Any] = {"program": program, "breakpoints": break_, "in_place": in_place}
    debug(launch, **{name: value for name, value in own.items() if value})


@magic.magic("line")
def tilediagnose(
    line: magic.Line, *, target: str | None = option(), of: str | None = option(magic.read_path)
) -> Diagnosis | Diagnoses:
    """Report why a launch is slow: findings ranked by cost, each with its line, its evidence and
    what to change. Nothing is timed, and no GPU is needed.

    Options, before the launch:

      --target GPU
          The GPU that it is compiled for: sm_90, gfx942, ...; by default the kernel's own.
      --of NAME
          Instead of a launch: a variable that holds a compilation, a profile, a sweep, a
          report of torch.compile, or what was counted of accesses.

    Examples:

      %tilediagnose matmul[grid](a, b, c, M, N, K, BM=128, BN=128, BK=64)
          Diagnose the launch.

      why = %tilediagnose --target sm_100 matmul[grid](a, b, c, M, N, K, BM=128, BN=128, BK=64)
          The same for another GPU, kept: why[0].kind, why[0].cost, why.table().

      %tilediagnose --of sweep
          Diagnose what a variable holds.
    """
    from kernellab.profiling.diagnosis.diagnose import diagnose

    own = magic.stated(target=target)
    if of is not None and not line.text:
        return diagnose(line.value(of, "--of"), **own)
    launch = magic.read_launch(line)
    return diagnose(launch.kernel, *launch.args, grid=launch.grid, **own, **launch.keywords)


@magic.magic("line")
def tileequal(
    line: magic.Line,
    *,
    with_: str | None = option(magic.read_path),
    seeds: int | None = option(read_whole_number),
    target: str | None = option(),
    rounding: str | None = option(),
    inputs: str | None = option(),
    proof: bool = option(),
) -> Equality:
    """Decide whether a launch computes the same as something else, for all inputs of its sizes.

    Both run on the CPU with residues in place of floats, so that rounding and the order of sums do
    not count: see docs/equality.md. Tensors stay as they are.

    Options, before the launch:

      --with NAME
          What it is compared with: a kernel that takes the same launch, a launch from
          kernellab.bind, or a function of torch.
      --seeds N
          How many sets of random residues; 3 by default.
      --target GPU
          The GPU to compile for: sm_90, gfx942, ...
      --rounding HOW
          "ignored", the default, or "kept": whether results in formats narrower than float32 must
          round the same numbers.
      --inputs WHICH
          "all", the default, or "finite": whether NaN and infinity count.
      --proof
          Prove "equal" by expressions, where these stay small.

    Examples:

      %tileequal --with torch.add add[grid](x, y, z, n, BLOCK=1024)
          Compare z with torch.add(x, y).

      %tileequal --with online_softmax softmax[grid](x, y, n, BLOCK=1024)
          Compare two kernels.
    """
    launch = magic.read_launch(line)
    from kernellab.equality.equal import equal

    if with_ is None:
        raise OptionError(
            "%tileequal needs --with: the kernel or the function to compare with.",
            position=line.place,
            advice="For example %tileequal --with torch.add add[grid](x, y, z, n, BLOCK=1024).",
        )
    given = magic.stated(seeds=seeds, target=target, rounding=rounding, inputs=inputs)
    given |= {"proof": True} if proof else {}
    return equal(launch, line.value(with_, "--with"), **given)


_BACKEND = option(values=names_in("kernellab.profiling.profiles.session:BACKENDS"))
_MODE = option(values=lambda: ["pcsampling"])


@magic.magic("line")
def tileprofile(
    line: magic.Line,
    *,
    backend: str | None = _BACKEND,
    mode: str | None = _MODE,
    save: str | None = option(os.path.expanduser),
    detail: str | None = option(values=names_in("kernellab.profiling.profiles.line_marks:DETAILS")),
) -> Profile:
    """Profile a launch, line by line; with %% all launches of a cell.

    On a GPU one launch gets cycles by line, and a cell is a session of Proton's. With tensors on
    the CPU the launches run on the interpreter: time on this CPU, executions, bytes and floating-
    point operations of each line, which are not a GPU's time.

    Options of %tileprofile, before the launch:

      --backend WHO
          The tool that measures: interpreter, or Proton's cupti and roctracer.
      --mode MODE
          Proton's mode: pcsampling for samples of lines.
      --save FILE
          Also save the profile to this file: p.hatchet.
      --detail HOW
          How finely a GPU's cycles are measured: operations, lines, loops, program.

    Options of %%tileprofile:

      --backend WHO
          The tool that measures: interpreter, or Proton's cupti and roctracer.
      --mode MODE
          Proton's mode: pcsampling for samples of lines.
      --save FILE
          Also save the profile to this file: p.hatchet.
      --context WHAT
          How launches are grouped: by shadow, the scopes of the cell, or python, also frames.
      --name VARIABLE
          Variable for the Profile: profile by default.

    Examples:

      %tileprofile matmul[grid](a, b, c, M, N, K)
          Profile the launch. found = %tileprofile ... keeps the Profile: found.lines, found.plot().

      %%tileprofile --context python --save step.hatchet
      model.step(x)
          Profile all that the cell launches; the Profile is in the variable `profile`.
    """
    launch = magic.read_launch(line)
    from kernellab.profiling.profiles.session import profile

    measured: Profile = profile(launch, **magic.stated(backend=backend, mode=mode, detail=detail))
    if save is not None:
        measured.save(save)
    return measured


@magic.magic("cell", has="nothing", beside=tileprofile)
def tileprofile_of_cell(
    cell: magic.Cell,
    *,
    backend: str | None = _BACKEND,
    mode: str | None = _MODE,
    save: str | None = option(os.path.expanduser),
    context: str | None = option(values=lambda: ["shadow", "python"]),
    name: str | None = option(magic.read_variable),
) -> None:
    """Profile all that a cell launches."""
    from kernellab.profiling.profiles.session import profile

    with profile(**magic.stated(backend=backend, mode=mode, context=context)) as session:
        ipython_api.execute(cell.running, cell.body)
    cell.namespace[name or "profile"] = session.profile
    if save is not None:
        session.profile.save(save)
    ipython_api.show(session.profile)


@magic.magic("line")
def tilestep(
    line: magic.Line,
    *,
    program: Sequence[tuple[int, ...]] = option(read_program, repeated=True),
    all: bool = option(),
    expect: str | None = option(magic.read_path),
    operations: bool = option(),
    late: bool = option(),
    exact_bytes: int | None = option(read_whole_number),
    in_place: bool = option(),
) -> Trace:
    """Trace a launch, and show it step by step, forwards and backwards.

    The whole grid runs; of one program every line is kept, with the variables that it changed and
    the elements that it accessed. The result is a Trace: `t = %tilestep add[grid](...)` keeps it,
    and t.at(5), t.find(...), t.history("acc"), t.diff(other) and t.save(path) use it.

    Options, before the launch:

      --program X,Y,Z
          The id of a program to trace: 96, or 2,1,0; 0,0,0 by default. May be repeated.
      --all
          Trace every program of the grid.
      --expect NAME
          A variable that holds right results by parameter, or a function that computes
          them, as for %tilecheck: the stepper opens where the first wrong element was
          written.
      --operations
          One step for each operation of the IR, not for each line.
      --late
          Asynchronous copies, TMA and matmuls complete as late as they may, and a timeline
          shows those in flight for each buffer and barrier. A Triton kernel is followed as
          compiled (TTGIR), without its variables.
      --exact-bytes N
          The largest value that is kept exactly, 65536 by default. Larger ones are computed
          again when they are asked for.
      --in-place
          Let the launch change the tensors. By default it runs on copies.

    Examples:

      %tilestep add[grid](x, y, z, n, BLOCK=1024)
          The steps of program (0, 0, 0).

      %tilestep --program 2,1 --operations matmul[grid](a, b, c)
          The operations of program (2, 1, 0).

      %tilestep --expect torch.add add[grid](x, y, z, n, BLOCK=1024)
          The step that wrote the first element of z that is not torch.add(x, y).

      %tilestep --late pipeline[(1,)](x, z)
          A Gluon kernel, with the copies and products that are in flight.
    """
    launch = magic.read_launch(line)
    from kernellab.tracing.launches import trace

    own = magic.stated(
        operations=operations or None,
        in_place=in_place or None,
        exact_bytes=exact_bytes,
        expect=line.value(expect, "--expect"),
    )
    if all or program:
        own["programs"] = "all" if all else program
    if late:
        launch = replace(launch, keywords={**launch.keywords, "completion": "late"})
    return trace(launch, **own)
