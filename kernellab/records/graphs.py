"""What torch.compile makes of a function: the levels between Python and kernels, as plain facts.

Every class here is data that a worker process sends and a file keeps; `kernellab.graphs` has the
report that is made of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff

from kernellab.common.text import shown
from kernellab.errors import ArgumentError, SourcePosition


def readable(source: str) -> str:
    """Return Dynamo's source of a value as the user writes it: "x.shape[0]", "self.norm.weight"."""
    source = re.sub(r"\b[LG]\['(\w+)'\]", r"\1", source)
    source = source.replace(".size()[", ".shape[").replace(".__code__", "")
    return re.sub(r"\._(?:modules|parameters|buffers)\['(\w+)'\]", r".\1", source)


LIBRARY = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]torch[/\\]"
    r"|[/\\]lib[/\\]python3\.\d+[/\\](?!(?:site|dist)-packages[/\\])"
)
"""In the name of a file of torch or of Python's standard library."""


def users_position(stack: Iterable[SourcePosition]) -> SourcePosition | None:
    """Return the innermost place of a stack that is not in torch or the standard library; the
    innermost of all if there is no other; None of an empty stack. `stack`: places, the outermost
    first.
    """
    places = list(stack)
    return next((p for p in reversed(places) if not LIBRARY.search(p.file)), [*places, None][-1])


@dataclass(frozen=True)
class ModulePlace:
    """A module that a node belongs to: its path in the model, "layers.0.attn", and its class."""

    path: str
    kind: str


@dataclass(frozen=True)
class GraphNode:
    """One node of an FX graph.

    Attributes:
        opcode: FX's: "placeholder", "call_function", "call_module", "get_attr", "output", ...
        target: what is called: "torch.sin", "aten.mul.Tensor"; an input's name: "x", "self.w".
        args, kwargs: as the graph's text has them.
        shape: sizes, symbols as text; None if the value is not a tensor.
        dtype: "float32", ...; None if the value is not a tensor.
        position: the user's line; None if torch kept none.
        modules: those of the model that it is in, the outermost first.
        strides: in elements, symbols as text; None if they are unknown.
    """

    name: str
    opcode: str
    target: str
    args: str
    kwargs: str
    shape: tuple[int | str, ...] | None
    dtype: str | None
    position: SourcePosition | None
    origins: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    modules: tuple[ModulePlace, ...] = ()
    strides: tuple[int | str, ...] | None = None


@dataclass(frozen=True)
class Level:
    """A graph at one level.

    Attributes:
        name: "fx", "joint", "aten", "prims", "post_grad".
        nodes: in order.
        error: why the level is not there; "" if it is.
    """

    name: str
    text: str
    nodes: tuple[GraphNode, ...]
    error: str = ""

    def counts(self) -> dict[str, int]:
        """How often each operation is called, most often first."""
        called = Counter(node.target for node in self.nodes if node.opcode.startswith("call_"))
        return dict(called.most_common())

    def diff(self, other: Level) -> str:
        """What the other level's text has instead, as a unified diff; "" for equal texts. Raises
        ArgumentError: `other` is not a level.
        """
        if not issubclass(type(other), Level):
            raise ArgumentError(
                f"other must be a level of a graph, got {shown(other)}.",
                advice="Write graph.aten.diff(graph.fx).",
            )
        lines = unified_diff(
            self.text.splitlines(), other.text.splitlines(), self.name, other.name, lineterm=""
        )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text or self.error


@dataclass(frozen=True)
class GraphPass:
    """One FX pass of Inductor.

    Attributes:
        stage: "pre_grad", "joint" or "post_grad".
        before, after: the graph's text; both "" if the pass changed nothing.
    """

    name: str
    stage: str
    before: str
    after: str
    seconds: float

    @property
    def changed(self) -> bool:
        """Whether the graph is another one after it."""
        return self.before != self.after

    def diff(self) -> str:
        """What it changed, as a unified diff."""
        return Level("before", self.before, ()).diff(Level("after", self.after, ()))


@dataclass(frozen=True)
class LoopBuffer:
    """One buffer of Inductor's loop IR.

    Attributes:
        name: "buf0".
        operation: the scheduler's name of what computes it: "op0".
        kind: Inductor's class: "Pointwise", "Reduction", "ExternKernelOut".
        reads, writes: names of buffers.
        read_bytes, write_bytes: what it moves alone, as Inductor counts; None if unknown.
        flops: Inductor's count; None if it has none.
    """

    name: str
    operation: str
    kind: str
    text: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    read_bytes: int | None
    write_bytes: int | None
    origins: tuple[str, ...]
    flops: int | None


@dataclass(frozen=True)
class Fusion:
    """A pair that the scheduler considered.

    Attributes:
        first, second: the operations of each, "op0", "op0_op1".
        reason: why not, in Inductor's words, with the operations "between"; "" if fused.
        saved_bytes: the memory traffic that fusing saves or would save, by Inductor's score; the
            bytes of buffers that both use whole, if they use none at the same indices.
    """

    first: str
    second: str
    fused: bool
    reason: str
    saved_bytes: int


def with_origins(operations: str, loops: Iterable[LoopBuffer]) -> str:
    """Name operations with the last node that each computes: "op0_op1 (exp, sum)"."""
    origins = {loop.operation: loop.origins for loop in loops}
    nodes = [origins[name][-1] for name in operations.split("_") if origins.get(name)]
    return f"{operations} ({', '.join(nodes)})" if nodes else operations


_FUNCTION = re.compile(r"^@triton_heuristics\..*?^def (?P<name>\w+)\(", re.S | re.M)


def kernel_names(functions: Mapping[str, str]) -> dict[str, str]:
    """Name the kernels of a graph: after their functions, but after their variables in the code
    that launches them where several have functions of one name. A user's kernel has a module for
    each set of its constants.

    Args:
        functions: variable -> name of the function.
    """
    shared = Counter(functions.values())
    return {
        variable: function if shared[function] == 1 else variable
        for variable, function in functions.items()
    }


@dataclass(frozen=True)
class KernelCode:
    """A kernel as Inductor writes it, or a kernel of the user, in the module that Inductor writes
    for it.

    Attributes:
        name: see `kernel_names`.
        source: the whole module: imports, decorators, the function.
        operations: those of its first launch, by the scheduler's names.
        origins: names of nodes of the post-grad graph, of all its launches.
        variables: name in the kernel ("tmp3") -> name of the operation that it belongs to.
        reused: what it computes in each further launch, in the order of `operations`.
    """

    name: str
    source: str
    operations: tuple[str, ...]
    buffers: tuple[str, ...]
    origins: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    reused: tuple[tuple[str, ...], ...] = ()

    @property
    def is_triton(self) -> bool:
        return "@triton.jit" in self.source

    @property
    def function(self) -> str:
        """The name of the function in `source`."""
        function = _FUNCTION.search(self.source)
        return function["name"] if function else self.name


@dataclass(frozen=True)
class GraphLaunch:
    """One launch of the generated code, in its order.

    Attributes:
        name: the kernel's, or what torch calls: "extern_kernels.mm".
        is_generated: whether it is a kernel of the graph's: Inductor's, or the user's own.
        moved_bytes: read and written; Inductor's count; None if it has none.
        flops: Inductor's count; None if it has none.
        mutated: of a user's kernel: parameter -> post-grad node to whose value it writes.
    """

    name: str
    is_generated: bool
    operations: tuple[str, ...]
    moved_bytes: int | None
    flops: int | None
    mutated: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SavedTensor:
    """The tensors that the forward graph keeps for the backward graph; bytes None if unknown."""

    name: str
    shape: tuple[int | str, ...] | None
    dtype: str | None
    bytes: int | None


@dataclass(frozen=True)
class Candidate:
    """One of what max-autotune would time for an operation.

    Attributes:
        operation: Inductor's name of it: "mm", "addmm", "flex_attention".
        place: which choice of the graph it belongs to, from 0.
        config: block sizes, warps, stages, as Inductor says them.
        source: its module; "" if it is not a template.
    """

    operation: str
    place: int
    name: str
    config: str
    is_template: bool
    is_taken: bool
    source: str


@dataclass(frozen=True)
class LoweredGraph:
    """One graph on its way from AOTAutograd to kernels.

    Attributes:
        direction: "forward", "backward" or "inference".
        number: of the Dynamo graph that it comes from, from 0.
        decompositions: operation -> how often one was decomposed while it was traced.
        passes: Inductor's FX passes, in order.
        saved: what a forward graph keeps for its backward graph.
        groups: operations of each kernel, after fusion.
        kernels: in the order of the wrapper.
        launches: in order.
        error: where it stopped and why; "" if it did not.
    """

    direction: str
    number: int
    aten: Level
    prims: Level = Level("prims", "", (), "not recorded")
    decompositions: dict[str, int] = field(default_factory=dict)
    passes: tuple[GraphPass, ...] = ()
    post_grad: Level = Level("post_grad", "", (), "Inductor did not reach this step")
    saved: tuple[SavedTensor, ...] = ()
    recomputed: tuple[str, ...] = ()
    loops: tuple[LoopBuffer, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    fusions: tuple[Fusion, ...] = ()
    wrapper: str = ""
    kernels: tuple[KernelCode, ...] = ()
    launches: tuple[GraphLaunch, ...] = ()
    error: str = ""
    seconds: float = 0.0
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class CapturedFrame:
    """One Dynamo graph: `fx` as Dynamo captured it, `joint` with its gradient (None without)."""

    number: int
    fx: Level
    joint: Level | None


@dataclass(frozen=True)
class GraphBreak:
    """Where Dynamo stopped capturing.

    Attributes:
        position: the user's line, also of a break in a function of torch that it calls.
        frame: "0/0", Dynamo's number of the frame and of its compilation; "" if unknown.
        resumes: whether Dynamo continues in a graph after the line; else Python runs the rest.
        uncompiled: where Dynamo does not go on, the lines of the function's statements from there
            on that no graph has; () also if the function's source is unknown.
        stack: the lines that led to it, the outermost first, with those of torch's functions.
    """

    reason: str
    explanation: str
    hints: tuple[str, ...]
    position: SourcePosition | None
    text: str = ""
    frame: str = ""
    resumes: bool = True
    uncompiled: tuple[int, ...] = ()
    stack: tuple[SourcePosition, ...] = ()

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position is not None else ""
        return f"{where}{self.reason}: {self.explanation} {self.rest}".rstrip()

    @property
    def rest(self) -> str:
        """What runs without a graph afterwards; "" if Dynamo continues."""
        if self.resumes:
            return ""
        if not self.uncompiled:
            return "The rest of the function runs without a graph."
        word = "line" if len(self.uncompiled) == 1 else "lines"
        return f"No graph has {word} {', '.join(map(str, self.uncompiled))}."


@dataclass(frozen=True)
class Guard:
    """A condition under which the compiled code holds.

    Attributes:
        frame: "0/0", Dynamo's number of the frame and of its compilation.
        kind: Dynamo's: "TENSOR_MATCH", "TYPE_MATCH", ...
        source: of what: "L['x']".
        failed: how it failed, where that led to a recompilation; "" if it held.
    """

    frame: str
    kind: str
    condition: str
    source: str
    failed: str = ""


@dataclass(frozen=True)
class GuardFailure:
    """A guard that did not hold.

    Attributes:
        frame: "0/0", of the code that it guards.
        position: the user's line behind the guard, or the function's; None if not known.
        old: the value that the code was compiled for; "" if unknown.
        new: the value that it was called with; "" if unknown.
        advice: what to change; "" if unknown.
    """

    frame: str
    condition: str
    position: SourcePosition | None
    old: str = ""
    new: str = ""
    advice: str = ""

    def __str__(self) -> str:
        where = f" ({self.position})" if self.position is not None else ""
        values = f": {self.values}" if self.new not in self.condition else ""
        return f"{self.frame}: {self.condition}{values}{where}" if self.frame else self.condition

    @property
    def values(self) -> str:
        """The old and the new value in words; "" if the new one is unknown."""
        if not self.new:
            return ""
        return f"was {self.old}, is {self.new}" if self.old else f"is {self.new}"


@dataclass(frozen=True)
class SizeGuard:
    """A condition on symbolic sizes that a line added.

    Attributes:
        condition: "x.shape[0] <= 100".
        position: the user's line; None if torch kept none.
    """

    condition: str
    position: SourcePosition | None

    def __str__(self) -> str:
        return self.condition if self.position is None else f"{self.condition} ({self.position})"


_FEW_GUARDS = 2


@dataclass(frozen=True)
class SizeSymbol:
    """A size, a stride or a number that the code takes as a symbol.

    Attributes:
        frame: "0/1", Dynamo's number of the frame and of its compilation.
        name: "s77"; "u0" of a size that depends on values of tensors.
        source: what it stands for: "x.shape[0]"; "" of a size that depends on values.
        value: what it was when the code was compiled; "" if it depends on values.
        range: the values that the code is for at first, without the guards: "[2, int_oo]".
        position: the line where it was first used; None if torch kept none.
        guards: the conditions on it that lines added, in order.
        fixed: the one value that it was specialized to; "" if it stayed a symbol.
        advice: what to mark or to change; "" if nothing is to be done.
    """

    frame: str
    name: str
    source: str
    value: str
    range: str
    position: SourcePosition | None
    guards: tuple[SizeGuard, ...] = ()
    fixed: str = ""
    advice: str = ""

    def __str__(self) -> str:
        what = f"{self.name} is {self.source}" if self.source else f"{self.name} depends on values"
        fixed = f", fixed at {self.fixed}" if self.fixed else ""
        guards = f", if {self.conditions}" if self.guards else ""
        advice = f". {self.advice}" if self.advice else ""
        return f"{self.frame}: {what}{fixed}{guards}{advice}"

    @property
    def conditions(self) -> str:
        """The first conditions on it in words, and how many more there are."""
        more = len(self.guards) - _FEW_GUARDS
        words = " and ".join(map(str, self.guards[:_FEW_GUARDS]))
        return f"{words}, and {more} more" if more > 0 else words


@dataclass(frozen=True)
class Recompilation:
    """A frame that was compiled again.

    Attributes:
        frame: "0/1", Dynamo's number of the frame and of its new compilation.
        function: the name of its function; "" if unknown.
        reason: the guards of all earlier compilations that did not hold, in a line.
    """

    frame: str
    function: str
    reason: str
    failures: tuple[GuardFailure, ...] = ()

    def __str__(self) -> str:
        failures = "; ".join(map(str, self.failures)) or self.reason
        return f"{self.function or 'a function'} ({self.frame}): {failures or 'not recorded'}"


@dataclass(frozen=True)
class Bytecode:
    """One function's bytecode, as `dis` prints it, before and after Dynamo.

    Attributes:
        frame: "0/0".
        function: its name; "torch_dynamo_resume_in..." runs the rest after a graph break.
        original, rewritten: disassembled.
        position: where the function is defined.
    """

    frame: str
    function: str
    original: str
    rewritten: str
    position: SourcePosition | None


@dataclass(frozen=True)
class GraphCapture:
    """All that was captured of one call.

    Attributes:
        gpu: the GPU that the code is for, as it was named.
        target: "sm_90"; "" if the code is for no GPU.
        error: what ended the capture before its end; "" if nothing did.
        sources: file -> its text, of the files that positions name and that could be read.
        symbols: the symbolic sizes of all frames, in the order in which they were created.
    """

    name: str
    gpu: str
    target: str
    torch_version: str
    frames: tuple[CapturedFrame, ...]
    lowered: tuple[LoweredGraph, ...]
    breaks: tuple[GraphBreak, ...]
    guards: tuple[Guard, ...]
    recompilations: tuple[Recompilation, ...]
    bytecode: tuple[Bytecode, ...]
    error: str
    seconds: float
    sources: dict[str, str] = field(default_factory=dict)
    symbols: tuple[SizeSymbol, ...] = ()
