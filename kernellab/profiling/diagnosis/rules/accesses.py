"""Accesses to global memory that move more than they use, or a little at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.compiler.modules.layout_flow import entering
from kernellab.compiler.modules.pointers import pointers_of
from kernellab.compiler.modules.structure import attribute, kind
from kernellab.ir.locations import argument_name
from kernellab.ir.traits import GlobalAccess, SharedWrite, global_effect, has, trait_of
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.parts import parts_of
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.profiling.diagnosis.rule import finding, rule
from kernellab.profiling.diagnosis.traffic import LINE, SECTOR, Traffic

_WASTE = 1.25
_WIDEST = 16


@rule("strided-access", "scattered-access")
def spread_access(evidence: Evidence) -> Iterator[CostFinding]:
    """Neighbouring lanes whose elements lie far apart."""
    for several in _by_line(evidence):
        bad = [one for one in several if _is_spread(one)]
        if not bad:
            continue
        one = max(bad, key=lambda each: each.sectors * each.times)
        cost = _cost(evidence, bad, _gathered)
        each = max(one.requests, 1)
        words = (
            f"{one.sectors / each:.3g} sectors a request where {one.best_sectors / each:.3g} "
            "would do"
        )
        kind_of, what, advice = _spread_words(one, words)
        yield finding(
            kind_of,
            what,
            cost,
            one.position,
            advice,
            {
                "argument": one.argument,
                "sectors a request": round(one.sectors / each, 2),
                "would do": round(one.best_sectors / each, 2),
                "executions by a program": round(one.times),
                "steps in elements": str(one.steps),
            },
            one.source,
        )


def _is_spread(one: Traffic) -> bool:
    return (
        not one.by_engine
        and one.dimension is not None
        and not one.is_dense
        and one.sectors - one.repeated_sectors > _WASTE * one.best_sectors
    )


def _gathered(one: Traffic) -> Traffic:
    """The same, if neighbouring lanes took neighbouring elements."""
    share = one.best_sectors / one.sectors
    return replace(
        one,
        sectors=one.best_sectors,
        different=min(one.different, one.best_sectors),
        lines=max(one.lines * share, one.requests),
    )


def _spread_words(one: Traffic, words: str) -> tuple[str, str, str]:
    along = one.dimension or 0
    step = None if one.steps is None else one.steps[along]
    of_what = f"{one.action} of {one.argument}" if one.argument else one.action
    if step is None and _is_loaded(pointers_of(one.op)):
        return (
            "scattered-access",
            f"the addresses of this {of_what} are loaded themselves, and neighbouring lanes go to "
            f"elements far apart: {words}",
            "Let neighbouring lanes go to neighbouring elements: give each program whole rows of "
            "what is gathered, with the lanes along the row; or sort the indices.",
        )
    near = None if one.steps is None or 1 not in one.steps else one.steps.index(1)
    apart = "an unknown number of" if step is None else f"{abs(step * one.element_bytes):,}"
    what = (
        f"this {of_what} is strided: {words}; neighbouring lanes lie along dimension {along}, "
        f"whose elements are {apart} bytes apart"
    )
    if near is not None and near != along:
        return (
            "strided-access",
            f"{what}, while those along dimension {near} are neighbours in memory",
            f"Let the tile be longer along dimension {near}, which is contiguous in memory, and "
            "show the compiler that it is: an index without a stride there, or the stride as "
            "tl.constexpr.",
        )
    return (
        "strided-access",
        what,
        "Let the tile's lanes run along the axis of the tensor whose stride is 1: swap which "
        "axis the program's tile covers, take a two-dimensional tile and transpose it on the chip "
        "(tl.trans), or pass a contiguous tensor. A stride that is 1 is known to the compiler "
        "where it is an argument that may be specialised, or tl.constexpr.",
    )


def _is_loaded(value: SSAValue) -> bool:
    """Whether a loaded value is among what an address is made of."""
    waiting, seen = [value], {value}
    while waiting:
        one = waiting.pop()
        before: Sequence[SSAValue] = ()
        if isinstance(one, BlockArgument):
            before = entering(one)
        elif isinstance(one, OpResult):
            if global_effect(one.op) is not None or kind(one.op) == "ttg.local_load":
                return True
            before = one.op.operands
        for each in before:
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return False


@rule("narrow-access")
def narrow_access(evidence: Evidence) -> Iterator[CostFinding]:
    """Neighbours in memory that a thread takes one by one."""
    for several in _by_line(evidence):
        bad = [one for one in several if _possible(evidence, one) > one.width]
        if not bad:
            continue
        one = max(bad, key=lambda each: each.requests * each.times)
        possible = _possible(evidence, one)
        why, advice = _why_narrow(evidence, one, possible)
        of_what = f"{one.action} of {one.argument}" if one.argument else one.action
        yield finding(
            "narrow-access",
            f"each thread of this {of_what} takes {one.width * one.element_bytes} bytes at once "
            f"where {possible * one.element_bytes} would do: {why}",
            _cost(evidence, bad, lambda each: _widened(evidence, each)),
            one.position,
            advice,
            {
                "argument": one.argument,
                "elements at once": one.width,
                "possible": possible,
                "requests": round(one.requests),
            },
            one.source,
        )


def _possible(evidence: Evidence, one: Traffic) -> int:
    """Elements that a thread could take at once, if all were known of addresses and mask."""
    if one.by_engine or one.is_atomic or one.dimension is None or one.steps is None:
        return 1
    if not one.is_dense:
        return 1
    along = one.shape[one.dimension]
    each = evidence.registers(pointers_of(one.op))
    return max(min(_WIDEST // one.element_bytes, each, along), 1)


def _widened(evidence: Evidence, one: Traffic) -> Traffic:
    possible = _possible(evidence, one)
    share = one.width / possible
    return replace(
        one,
        requests=one.requests * share,
        sectors=one.bytes / SECTOR,
        lines=max(one.bytes / LINE, 1),
        width=possible,
    )


def _why_narrow(evidence: Evidence, one: Traffic, possible: int) -> tuple[str, str]:
    facts = evidence.pointer_facts.get(one.op)
    unaligned = _unaligned(pointers_of(one.op))
    along = one.dimension or 0
    if facts is not None and along < len(facts.contiguity):
        if facts.contiguity[along] < possible:
            return (
                "nothing shows the compiler that the elements are neighbours in memory",
                "Where % or a loaded index hides it, promise it with "
                "tl.max_contiguous(tl.multiple_of(index, W), W); write the index of that "
                "dimension without a stride.",
            )
        if facts.divisibility[along] < possible * one.element_bytes:
            who = f" ({', '.join(unaligned)})" if unaligned else ""
            return (
                f"nothing shows the compiler that they are aligned to "
                f"{possible * one.element_bytes} bytes{who}",
                "Pass pointers, sizes and strides that are multiples of 16"
                f"{f' for {chr(44).join(unaligned)}' if unaligned else ''} (a tensor of its own "
                "instead of a view that starts in the middle, a padded row), or promise what holds "
                "with tl.multiple_of.",
            )
    access = trait_of(one.op, GlobalAccess)
    mask = access.mask_of(one.op) if access is not None else None
    if mask is not None and any(step != 0 for step in evidence.scalars.steps(mask)):
        bounds = _unaligned(mask)
        who = f" ({', '.join(bounds)} is not known to be a multiple of 16)" if bounds else ""
        return (
            f"the mask may switch off any one of them alone{who}",
            "Let the mask compare with a multiple of 16: pad the tensor and pass the padded size, "
            "or promise it with tl.multiple_of where it holds.",
        )
    if has(one.op, SharedWrite):
        return (
            "it is laid down in shared memory along the tile's other axis, as the product wants it",
            "Keep this operand with the product's inner axis last in memory: wgmma turns tiles of "
            "16-bit elements by itself, and no others.",
        )
    return (
        "what the compiler knows of their addresses allows no more",
        "Pass pointers, sizes and strides that are multiples of 16.",
    )


def _unaligned(value: SSAValue) -> list[str]:
    """The parameters in an address or a mask of which no divisibility is known."""
    names: dict[str, None] = {}
    waiting, seen = [value], {value}
    while waiting:
        one = waiting.pop()
        before: Sequence[SSAValue] = ()
        if isinstance(one, BlockArgument):
            function = one.block.parent_op()
            if function is not None and kind(function) == "tt.func":
                if not _is_promised(function, one.index):
                    names[argument_name(one) or f"argument {one.index}"] = None
            else:
                before = entering(one)
        elif isinstance(one, OpResult):
            before = one.op.operands
        for each in before:
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return list(names)


def _is_promised(function: Operation, place: int) -> bool:
    promises = attribute(function, "arg_attrs")
    if not isinstance(promises, builtin.ArrayAttr) or place >= len(promises.data):
        return False
    one = promises.data[place]
    return isinstance(one, builtin.DictionaryAttr) and "tt.divisibility" in one.data


# Both


def _by_line(evidence: Evidence) -> Iterator[list[Traffic]]:
    """The accesses of one line to one argument together: prologue and body of a pipelined loop."""
    lines: dict[object, list[Traffic]] = {}
    for one in evidence.accesses:
        lines.setdefault((one.position, one.argument), []).append(one)
    yield from lines.values()


def _cost(
    evidence: Evidence, bad: Sequence[Traffic], mended: Callable[[Traffic], Traffic]
) -> float:
    """What would be saved if some accesses were as `mended` makes them."""
    changed = {id(one): mended(one) for one in bad}
    fewer = sum(2 * (one.requests - changed[id(one)].requests) * one.times for one in bad)
    accesses = [changed.get(id(one), one) for one in evidence.accesses]
    found = parts_of(evidence.with_accesses(accesses, evidence.issue_slots - fewer))
    return evidence.parts.saved_by(
        dram=found.dram, cache=found.cache, requests=found.requests, issue=found.issue
    )
