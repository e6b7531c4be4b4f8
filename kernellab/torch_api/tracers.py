"""What torch itself records of a call: Dynamo's events and bytecode, and lazy tensors."""

from __future__ import annotations

import ast
import dis
import functools
import importlib
import importlib.util
import io
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

import torch
import torch._dynamo.convert_frame
import torch._dynamo.guards
import torch._dynamo.symbolic_convert
import torch._dynamo.trace_rules
import torch._dynamo.variables
import torch._guards
import torch._lazy
import torch._lazy.metrics
import torch._lazy.ts_backend
import torch._logging.structured
import torch.utils._pytree as pytree

from kernellab.common.patches import watched
from kernellab.common.text import shown
from kernellab.errors.sources import SourcePosition
from kernellab.records.graphs import Bytecode
from kernellab.torch_api.emulation import ABOUT_TRITON

# What Dynamo says while it works: the events of torch's structured trace, and its bytecode.

_frames: Any = torch._dynamo.convert_frame
_guards: Any = torch._guards
_guard_checks: Any = torch._dynamo.guards
_structured: Any = torch._logging.structured
_translators: Any = torch._dynamo.symbolic_convert
_protocol: Any = torch._dynamo.variables
if importlib.util.find_spec("torch._dynamo.variables.object_protocol"):  # since torch 2.12
    _protocol = importlib.import_module("torch._dynamo.variables.object_protocol")

Event = tuple[dict[str, Any], Any]
"""Metadata and payload, as torch logs them."""


class _Sink(logging.Handler):
    def __init__(self, take: Callable[[Event], None]) -> None:
        super().__init__(logging.DEBUG)
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        fields = vars(record)
        metadata = fields.get("metadata") or {}
        named = {key: _with_file_names(value) for key, value in metadata.items()}
        self._take((named, fields.get("payload")))


def _with_file_names(value: Any) -> Any:
    """A message of torch, with the names of files in its stack in place of numbers,
    and without torch's own stack.
    """
    if not isinstance(value, dict) or not value.get("user_stack"):
        return value
    files = {number: file for file, number in _structured.INTERN_TABLE.items()}
    stack = [
        {**place, "filename": files.get(place.get("filename"), "")} for place in value["user_stack"]
    ]
    return {**value, "user_stack": stack, "stack": None}


def hear_from_now_on(take: Callable[[Event], None]) -> None:
    """Call a function with each event of torch's structured trace until the process ends."""
    log = logging.getLogger("torch.__trace")
    log.addHandler(_Sink(take))
    log.setLevel(logging.DEBUG)


def keep_users_kernels(backend: str) -> None:
    """Have Dynamo put launches of Triton kernels into the graphs of a backend, also without a GPU,
    and trace no code of KernelLab, until the process ends.

    Without a GPU, Dynamo does not recognize kernels, and traces into the code that launches them.
    """
    original = ABOUT_TRITON.has_triton

    @functools.wraps(original)
    def has_triton() -> bool:
        return bool(original()) or _traced_for() == backend

    vars(has_triton)["cache_clear"] = original.cache_clear
    vars(ABOUT_TRITON)["has_triton"] = has_triton
    torch._dynamo.trace_rules.add("kernellab")


def _traced_for() -> str:
    """Return the name of the backend that Dynamo traces for at the moment; "" for none."""
    translator = getattr(_translators.tls, "current_tx", None)
    return "" if translator is None else getattr(translator.output.compiler_fn, "__name__", "")


@contextmanager
def events_heard(events: list[Event]) -> Iterator[None]:
    """While active, torch's structured trace is added to `events`."""
    log = logging.getLogger("torch.__trace")
    sink, level = _Sink(events.append), log.level
    log.addHandler(sink)
    log.setLevel(logging.DEBUG)
    objects: dict[int, str] = {}
    noting_values = partial(_noting_values, events, objects)
    try:
        with (
            watched(_protocol, binop_type_error=partial(_noting_pointers, events)),
            watched(_guard_checks.CheckFunctionManager, id_ref=partial(_noting_objects, objects)),
            watched(_guard_checks, get_guard_fail_reason_helper=noting_values),
        ):
            yield
    finally:
        log.removeHandler(sink)
        log.setLevel(level)


def _noting_objects(
    objects: dict[int, str], original: Any, manager: Any, value: object, source: str
) -> Any:
    """What Dynamo calls with each object that code is compiled for; `objects` gets its text."""
    number = original(manager, value, source)
    objects[number] = _described(value)
    return number


def _noting_values(
    events: list[Event], objects: Mapping[int, str], original: Any,
    manager: Any, local_values: dict[str, Any], *more: Any, **named: Any,
) -> Any:  # fmt: skip
    """What Dynamo calls for the reason why a guard failed: the values are noted with it."""
    reason = original(manager, local_values, *more, **named)
    scope = {**local_values, "L": local_values, "G": manager.global_scope["G"]}
    values = _values_of(reason, scope, objects)
    events.append((_artifact("kernellab_guard_values"), (reason, *values)))
    return reason


_OF_OBJECT = re.compile(r"___check_obj_id\(.+, (?P<number>\d+)\)")


def _values_of(reason: str, scope: dict[str, Any], objects: Mapping[int, str]) -> tuple[str, str]:
    """The old value of a guard that failed, if it is an object, and the new one; "" if unknown."""
    condition = re.sub(r"^\d+/\d+: ", "", reason).partition("  # ")[0].partition(", type=")[0]
    if condition.startswith("GLOBAL_STATE"):
        changed = [name for name in condition.split() if name in _SETTINGS]
        return "", ", ".join(f"{name} {_SETTINGS[name]()}" for name in changed)
    matched = _OF_OBJECT.match(condition)
    old = objects.get(int(matched["number"]), "") if matched else ""
    try:
        match ast.parse(condition.strip(), mode="eval").body:
            case ast.Compare(left, [ast.Is() | ast.IsNot(), *_], _):
                return old, ""
            case ast.Compare(left, [ast.Eq()], [ast.Constant(constant)]):
                old, values = repr(constant), [left]
            case ast.Compare(left, _, others):
                parts = [left, *others]
                values = [part for part in parts if not isinstance(part, ast.Constant)]
            case ast.Call(ast.Name(str(name)), [value, _]) if name.startswith("___check"):
                values = [value]
            case _:
                return old, ""
        # The guard evaluated the same expression in the same scope a moment ago.
        value = eval(ast.unparse(values[0]), scope)
    except Exception:  # the expression is of Dynamo's own helpers, or the user's code raises
        return old, ""
    is_type = condition.startswith("___check_type_id")
    return old, type(value).__name__ if is_type else _described(value)


def _described(value: object) -> str:
    """A value in a few words, without calling code of the user: numbers and texts as they are,
    functions and classes by name, tensors by dtype and shape.
    """
    match value:
        case bool() | int() | float() | str() | None | torch.dtype() | torch.device():
            return shown(value)
        case torch.Tensor():
            return f"a tensor {str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        case CodeType(co_name=name) | FunctionType(__name__=name) | type(__name__=name):
            return str(name)
        case BuiltinFunctionType(__name__=name):
            return str(name)
    return f"a {type(value).__name__}"


_SETTINGS: dict[str, Callable[[], object]] = {
    "grad_mode": torch.is_grad_enabled,
    "default_dtype": torch.get_default_dtype,
    "num_threads": torch.get_num_threads,
    "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
}
"""Dynamo's names of settings that code depends on, and what has their values."""


def _artifact(name: str) -> dict[str, Any]:
    """The metadata of an event of KernelLab's own on the frame that is being compiled."""
    frame = _guards.CompileContext.current_compile_id()
    metadata: dict[str, Any] = {"artifact": {"name": name}}
    if frame is not None:
        metadata |= {"frame_id": frame.frame_id, "frame_compile_id": frame.frame_compile_id}
    return metadata


def _noting_pointers(
    events: list[Event], original: Any, translator: Any, left: Any, right: Any, symbol: str,
    *args: Any,
) -> Any:  # fmt: skip
    """What Dynamo calls instead of raising a TypeError for an operation: it notes before which of
    them an operand is the address of a tensor, for which Dynamo has no number.
    """
    for operand in (left, right):
        if type(operand).__name__ == "DataPtrVariable":
            place = translator.frame_summary()
            words = f"tensor pointers cannot be traced: `{symbol}` of {operand.method_name}()"
            position = SourcePosition(place.filename, place.lineno)
            events.append((_artifact("kernellab_pointer"), (position, words)))
    return original(translator, left, right, symbol, *args)


def bytecode_heard(bytecode: list[Bytecode]) -> AbstractContextManager[object]:
    """While active, each function that Dynamo rewrites is added to `bytecode`."""

    def hook(original: CodeType, rewritten: CodeType) -> None:
        frame = _guards.CompileContext.current_compile_id()
        bytecode.append(
            Bytecode(
                frame=str(frame or ""),
                function=original.co_name,
                original=_disassembled(original),
                rewritten=_disassembled(rewritten),
                position=SourcePosition(original.co_filename, original.co_firstlineno),
            )
        )

    return _frames.register_bytecode_hook(hook)  # type: ignore[no-any-return]


def _disassembled(code: CodeType) -> str:
    text = io.StringIO()
    dis.dis(code, file=text, depth=0)
    return text.getvalue()


# Torch's lazy tensors, which record the operations on them until a value is needed.

_metrics: Any = torch._lazy.metrics
_lazy: Any = torch._lazy
_backend: Any = torch._lazy.ts_backend


@functools.cache
def _initialized() -> None:
    _backend.init()  # a second time is an error


def called_lazily(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function with lazy tensors; its results and arguments are on the CPU."""
    _initialized()
    lazy = pytree.tree_map_only(torch.Tensor, lambda given: given.detach().to("lazy"), args)
    made = function(*lazy)
    _lazy.mark_step()  # what is written down so far becomes one program
    result = pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, made)
    for mine, theirs in zip(pytree.tree_leaves(args), pytree.tree_leaves(lazy), strict=True):
        if isinstance(mine, torch.Tensor):
            with torch.no_grad():
                mine.copy_(theirs.cpu())
    return result


def programs_run() -> int:
    """How many programs lazy tensors have become so far in this process."""
    _lazy.wait_device_ops()
    counted = (_metrics.counter_value(name) for name in ("UncachedCompile", "CachedCompile"))
    return sum(number or 0 for number in counted)


def operations_sent_on() -> list[str]:
    """The operations that lazy tensors could not write down and had torch run at once."""
    return sorted(name for name in _metrics.counter_names() if name.startswith("aten::"))


def forget() -> None:
    """Begin to count again."""
    _metrics.reset()
