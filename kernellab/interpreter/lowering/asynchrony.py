"""The lowering of asynchronous operations for a run in which they complete when something waits for
them; all other operations are lowered as usual.

mbarriers need nothing here: such a run replaces the module `mbarriers` of generated code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from kernellab.interpreter.codegen.emitter import Emitter, LoweringRule, RuleOf, rule_of
from kernellab.interpreter.codegen.expressions import Expression, given, mbarriers, transfers
from kernellab.interpreter.lowering.tt import loaded
from kernellab.interpreter.lowering.ttg import TOKEN
from kernellab.interpreter.lowering.ttng import (
    arrivals_of_copies,
    at_barrier,
    commit_to,
    run_as_one,
    sent_to_global,
)
from kernellab.ir import amd, mlir, ttg, ttng
from kernellab.ir.operations import OfQueue, parents, trait_of

_Lower = Callable[[Any, Emitter], Any]


def deferred(kernel: Any, rules: RuleOf = rule_of) -> RuleOf:
    """The rules of a run in which operations complete late; `rules` says what they compute."""
    is_gluon = kernel.is_gluon()

    def rule_of(op: Operation) -> LoweringRule | None:
        plain = rules(op)
        if isinstance(op, mlir.SelectOp) and not _moves_product(op):
            return plain
        if isinstance(op, ttng.TensorCoreOp) and not is_gluon and _will_be_waited_for(op):
            return plain
        lower = _LOWERINGS.get(type(op))
        if type(op) in _COMPUTING and plain is not None:
            lower = functools.partial(_COMPUTING[type(op)], plain.lower)
        return plain if lower is None else LoweringRule(lower, pure=False, rounds=False)

    return rule_of


def _moves_product(op: mlir.SelectOp) -> bool:
    return any(isinstance(operand.owner, ttng.WarpGroupDotWaitOp) for operand in op.operands)


def _copy(op: ttg.AsyncCopyGlobalToLocalOp | amd.BufferLoadToLocalOp, emit: Emitter) -> Expression:
    _call("copy", op, emit, emit[op.memory], loaded(op, emit))
    return TOKEN


def _commit(op: ttg.AsyncCommitGroupOp, emit: Emitter) -> Expression:
    _call("commit", op, emit)
    return TOKEN


def _wait(op: ttg.AsyncWaitOp | ttng.AsyncTmaStoreWaitOp, emit: Emitter) -> Expression:
    _call("wait", op, emit, op.pending.value.data)
    return TOKEN


def _send(op: ttng.AsyncTmaCopyLocalToGlobalOp | ttng.AsyncTmaScatterOp, emit: Emitter) -> None:
    store = sent_to_global(op, emit)
    emit.evaluate(None, store)
    _call("send", op, emit, emit[op.memory], store.later())


def _reduce(lower: _Lower, op: ttng.AsyncTmaReduceOp, emit: Emitter) -> None:
    """Not twice, as a store: it is done when it is issued."""
    lower(op, emit)
    _call("commit", op, emit)


def _product(lower: _Lower, op: ttng.WarpGroupDotOp, emit: Emitter) -> Expression:
    product: Expression = lower(op, emit)
    if not op.completes_later:
        _call("wait", op, emit, 0)
        return product
    shape, kind = emit.shape(op.result), emit.dtype(op.result)
    active = emit.active_programs()
    chosen = {} if active is None else {"active": active, "may_part": True}
    return _flights(emit).product(_queue(op, emit), product.later(), shape, kind, **chosen)


def _wait_for_products(op: ttng.WarpGroupDotWaitOp, emit: Emitter) -> tuple[Expression, ...]:
    _call("wait", op, emit, op.pending.value.data)
    return tuple(emit[operand] for operand in op.inputs)


def _will_be_waited_for(op: ttng.TensorCoreOp) -> bool:
    """Whether nothing learns when it completes yet: a later pass of the compiler adds the wait."""
    is_async = ttng.is_set(op.properties.get("is_async")) or bool(ttng.committed_to(op)[0])
    *_, module = parents(op)
    commits = (isinstance(each, ttng.Tcgen5CommitOp) for each in module.walk())
    return not is_async and not any(commits)


def _tensor_product(lower: Callable[..., Any], op: ttng.TensorCoreOp, emit: Emitter) -> Any:
    return lower(op, emit, _put_later)


def _put_later(op: ttng.TensorCoreOp, tile: Expression, emit: Emitter) -> None:
    memory = op.memory if isinstance(op, ttng.TmemCopyOp) else op.d
    _call("multiply", op, emit, emit[memory], tile.later())
    commit_to(op, emit, _flights(emit).before(_queue(op, emit)))


def _commit_products(_: _Lower, op: ttng.Tcgen5CommitOp, emit: Emitter) -> None:
    run_as_one(op, emit)
    commit_to(op, emit, _flights(emit).before(_queue(op, emit)))


def _count_copies(_: _Lower, op: ttng.AsyncCopyMbarrierArriveOp, emit: Emitter) -> None:
    first = _flights(emit).before(_queue(op, emit))
    at_barrier(mbarriers.count_copies, op.barrier, emit, arrivals_of_copies(op), first)


def _select(lower: _Lower, op: mlir.SelectOp, emit: Emitter) -> Expression:
    """Where a product's registers are moved, ptxas waits for it (its warning C7510)."""
    active = given(active=emit.active_programs())
    emit.evaluate(None, _flights(emit).wait(f"products {emit.warp_group_name}", 0, **active))
    chosen: Expression = lower(op, emit)
    return chosen


def _call(method: str, op: Operation, emit: Emitter, *arguments: Any) -> None:
    active = given(active=emit.active_programs())
    call = _flights(emit).member(method)(_queue(op, emit), *arguments, **active)
    emit.evaluate(None, call)


def _flights(emit: Emitter) -> Expression:
    return emit.once_per_batch("flights", transfers.Flights(emit.programs.count))


def _queue(op: Operation, emit: Emitter) -> str:
    """Each group of warps that runs separate code waits for its own operations."""
    trait = trait_of(op, OfQueue)
    assert trait is not None
    return f"{trait.queue} {emit.warp_group_name}"


_LOWERINGS: dict[type[Operation], _Lower] = {
    ttg.AsyncCopyGlobalToLocalOp: _copy,
    ttg.AsyncCommitGroupOp: _commit,
    ttg.AsyncWaitOp: _wait,
    amd.BufferLoadToLocalOp: _copy,
    ttng.AsyncTmaCopyLocalToGlobalOp: _send,
    ttng.AsyncTmaScatterOp: _send,
    ttng.AsyncTmaStoreWaitOp: _wait,
    ttng.WarpGroupDotWaitOp: _wait_for_products,
}

_COMPUTING: dict[type[Operation], Callable[[_Lower, Any, Emitter], Any]] = {
    ttng.AsyncTmaReduceOp: _reduce,
    ttng.WarpGroupDotOp: _product,
    ttng.TmemCopyOp: _tensor_product,
    ttng.Tcgen5MmaOp: _tensor_product,
    ttng.Tcgen5MmaScaledOp: _tensor_product,
    ttng.Tcgen5CommitOp: _commit_products,
    ttng.AsyncCopyMbarrierArriveOp: _count_copies,
    mlir.SelectOp: _select,
}
"""Operations that also do what the other rules say."""
