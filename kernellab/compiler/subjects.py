"""What a run says something about, and whether a compilation is of the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernellab import triton_api
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.records import Compilation, SourceMap, Subject, Target

_ALWAYS = ("num_warps", "num_stages", "num_ctas")
"""Options that make other code, whether a launch names them or not."""


def subject_of(kernel: Any, call: BoundCall, target: Target) -> Subject:
    """What a launch of a plain JIT function is a launch of."""
    defaults = triton_api.backend_options(target)
    options = {name: defaults[name] for name in _ALWAYS if name in defaults}
    return Subject(
        kernel=kernel.__name__,
        definition=triton_api.definition_of(kernel),
        source="".join(kernel.raw_src),
        target=target,
        specialization=call.specialization,
        options={**options, **triton_api.options_of_launch(kernel, call.options)},
    )


def is_defined_alike(subject: Subject, compilation: Compilation) -> bool:
    """Whether both are of one definition: the same text, in the same file,
    on the same lines as far as the record knows them.
    """
    if "source" in compilation.stages:
        if compilation.stages["source"].text.rstrip() != subject.source.rstrip():
            return False
    if not compilation.can_answer("source_map"):
        return True
    source_map = compilation.source_map
    line = definition_line(compilation, source_map)
    return source_map.file in ("", subject.definition.file) and line in (
        None,
        subject.definition.line,
    )


def definition_line(compilation: Compilation, source_map: SourceMap) -> int | None:
    """The line of the kernel's `def`, which the IR's function knows; None where no IR says it."""
    for name in ("ttir", "ttgir"):
        if name not in compilation.stages or name not in source_map.origins:
            continue
        for number, line in enumerate(compilation.stages[name].text.splitlines(), 1):
            if "tt.func public @" in line:
                chains = source_map.chain(name, number)
                if chains:
                    return chains[0][-1].line
    return None


def differences(subject: Subject, compilation: Compilation) -> Iterator[str]:
    """How the compilation differs from what was run, in words:
    target, types, constants, options.
    """
    if subject.target != compilation.target:
        yield f"target {subject.target}, and here {compilation.target}"
    ours, theirs = subject.specialization, compilation.specialization
    for name in {**ours.signature, **theirs.signature}:
        there, here = ours.signature.get(name), theirs.signature.get(name)
        if there != here:
            yield f"{name} is {there}, and here {here}"
    names = list(ours.signature)
    for what, run, compiled in (
        ("constant", ours.constants, theirs.constants),
        ("promise", ours.attributes, theirs.attributes),
    ):
        for path in {**run, **compiled}:
            there, here = run.get(path) or None, compiled.get(path) or None
            if there != here:
                name = names[path[0]] if path[0] < len(names) else str(path)
                yield f"{what} of {name}: {there}, and here {here}"
    for name, value in subject.options.items():
        if name in compilation.options and compilation.options[name] != value:
            yield f"{name}={value}, and here {name}={compilation.options[name]}"
