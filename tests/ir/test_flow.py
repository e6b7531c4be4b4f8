"""How values flow: through every kind of control flow, as slices, and to a fixpoint."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from kernellab.ir import flow, mlir, tt
from kernellab.ir.syntax import read_module
from tests.support.compiled import of_corpus

LOOP = """"builtin.module"() ({
  "tt.func"() <{function_type = (i32, i32, i1) -> (), sym_name = "f", sym_visibility = "public"}> ({
  ^bb0(%n: i32, %start: i32, %up: i1):
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %last = "scf.for"(%zero, %n, %one, %start) ({
    ^bb1(%i: i32, %carried: i32):
      %next = "scf.if"(%up) ({
        %more = "arith.addi"(%carried, %i) : (i32, i32) -> i32
        "scf.yield"(%more) : (i32) -> ()
      }, {
        "scf.yield"(%carried) : (i32) -> ()
      }) : (i1) -> i32
      "scf.yield"(%next) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()"""

JUMPS = """"builtin.module"() ({
  "tt.func"() <{function_type = (i32, i1) -> (), sym_name = "f", sym_visibility = "public"}> ({
  ^bb0(%n: i32, %up: i1):
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    "cf.br"(%one)[^bb1] : (i32) -> ()
  ^bb1(%now: i32):
    %more = "arith.addi"(%now, %n) : (i32, i32) -> i32
    "cf.cond_br"(%up, %more, %now)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 1, 1>}>
      : (i1, i32, i32) -> ()
  ^bb2(%end: i32):
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()"""


def named(module: ModuleOp) -> dict[str, SSAValue]:
    return {value.name_hint: value for value in values_of(module) if value.name_hint}


def values_of(module: Operation) -> Iterator[SSAValue]:
    for op in module.walk():
        yield from op.results
        yield from flow.arguments_inside(op)


def names(values: object) -> set[str | None]:
    assert isinstance(values, list | tuple | Iterator)
    return {value.name_hint for value in values}


def test_a_loop_hands_on_what_goes_in_and_what_comes_round() -> None:
    value = named(read_module(LOOP))
    assert names(flow.sources(value["carried"])) == {"start", "next"}
    assert names(flow.sources(value["next"])) == {"more", "carried"}
    assert names(flow.sources(value["last"])) == {"carried"}
    assert names(flow.targets(value["carried"])) == {"last", "next"}
    assert flow.sources(value["i"]) == flow.sources(value["more"]) == []
    assert names(flow.deciders(value["i"])) == {"zero", "n", "one"}
    assert names(flow.deciders(value["next"])) == {"up"}


def test_a_jump_hands_on_to_its_block() -> None:
    value = named(read_module(JUMPS))
    assert names(flow.sources(value["now"])) == {"one", "more"}
    assert names(flow.sources(value["end"])) == {"now"}
    assert names(flow.targets(value["more"])) == {"now"}
    assert names(flow.deciders(value["end"])) == {"up"}


def test_a_slice_goes_through_loops_and_branches_and_stops_where_it_is_told_to() -> None:
    value = named(read_module(LOOP))
    assert names(flow.backward([value["last"]])) == {
        "last", "carried", "start", "next", "more", "i",
    }  # fmt: skip
    assert names(flow.forward([value["start"]])) == {"start", "carried", "last", "more", "next"}
    assert names(flow.backward([value["last"]], lambda one: one is value["next"])) == {
        "last", "carried", "start", "next",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "target"),
    [("collatz", "sm_90"), ("ragged_scale", "sm_90"), ("matmul_warp_specialized", "sm_100")],
)
def test_targets_are_the_inverse_of_sources(name: str, target: str) -> None:
    compilation = of_corpus(name, target)
    for stage in ("ttir", "ttgir"):
        module = compilation.module(stage)
        values = list(values_of(module))
        back = {(source, value) for value in values for source in flow.sources(value)}
        assert back == {(value, target) for value in values for target in flow.targets(value)}
        assert back == {pair for op in module.walk() for pair in flow.handed_on(op)}
        assert back


@dataclass(frozen=True)
class Signs:
    entry: Mapping[SSAValue, bool]

    def transfer(
        self, op: Operation, states: Mapping[SSAValue, bool]
    ) -> Iterator[tuple[SSAValue, bool]]:
        if isinstance(op, mlir.ConstantOp):
            yield op.result, op.integer is None or op.integer < 0
        elif isinstance(op, mlir.ForOp) and op.lower in states:
            yield op.block.args[0], states[op.lower]
        elif isinstance(op, mlir.AddIOp) and op.lhs in states and op.rhs in states:
            yield op.result, states[op.lhs] or states[op.rhs]

    def join(self, left: bool, right: bool) -> bool:
        return left or right


@pytest.mark.parametrize("is_negative", [True, False])
def test_a_fixpoint_follows_what_comes_round(is_negative: bool) -> None:
    module = read_module(LOOP)
    value = named(module)
    signs = flow.analyze(module.walk(), Signs({value["start"]: is_negative}))
    assert signs[value["last"]] is signs[value["carried"]] is is_negative
    assert signs[value["i"]] is False
    assert value["up"] not in signs
    assert isinstance(value["n"].owner.parent_op(), tt.FuncOp)
