"""Keeps what every pass did, while a compilation goes by."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kernellab.compiler.machine_code.sass import disassemble
from kernellab.errors import MachineError
from kernellab.records import DeferredText, PassRun, StoredText
from kernellab.triton_api.watching import PassCall, Watcher

_NO_OPS: Mapping[str, int] = {}

ACTS_ON = {
    "arith_to_llvmir": "arith.",
    "cf_to_llvmir": "cf.",
    "index_to_llvmir": "index.",
    "interleave_tmem": "ttng.tmem",
    "optimize_tmem_layouts": "ttng.tmem",
    "tmem_load_reduce": "ttng.tmem",
    "warp_specialize_to_llvm": "ttg.warp_specialize",
}
"""Pass -> how the names of the ops begin that it rewrites:
in a module without them it has nothing to do.

Printing a module is most of what recording costs. These passes rewrite nothing else,
in any supported version of Triton: a test prints after them all the same, for the whole corpus.
"""


def _sass_or_why(cubin: bytes) -> str:
    """The SASS of a cubin; where this machine cannot make it, a comment that says so."""
    try:
        return disassemble(cubin)
    except MachineError as error:
        return f"// {error.what}\n"


class PassRecorder(Watcher):
    """A `Watcher` that keeps one PassRun per pass.

    Passes run one after the other, and most change nothing: an unchanged text is noticed before
    anything else is done to it, and shares the counts and the stored text of the one before.
    """

    def __init__(self, *, trusting: bool = True) -> None:
        """`trusting` passes over modules in which a pass has nothing to do (`ACTS_ON`),
        without printing them.
        """
        self._trusting = trusting
        self.passes: list[PassRun] = []
        self.stage_texts: dict[str, str] = {}
        self._text = ""
        self._stored: StoredText | None = None
        self._op_counts = _NO_OPS
        self._known: dict[str, StoredText] = {}
        self._erased: tuple[str, ...] = ()
        self._optimization: tuple[PassCall, float] | None = None

    def module_made(self, call: PassCall, seconds: float, module: Any) -> None:
        """Keep the module before any pass."""
        PassRecorder.pass_ran(self, call, seconds, module)

    def pass_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        """Keep the module after a pass of MLIR."""
        before = self._op_counts
        text = self._text if self._has_nothing_to_do(call.name) else str(module)
        changed = text != self._text
        if changed or self._stored is None:
            self._op_counts = count_ops(module)
            self._stored = self._keep(text)
            self._text = text
        self.passes.append(
            PassRun(
                call.stage,
                call.name,
                call.occurrence,
                call.arguments,
                seconds,
                changed,
                before,
                self._op_counts,
                self._stored,
            )
        )

    def _has_nothing_to_do(self, name: str) -> bool:
        if not self._trusting or name not in ACTS_ON:
            return False
        return not any(op.startswith(ACTS_ON[name]) for op in self._op_counts)

    def step_ran(self, call: PassCall, seconds: float, _module: Any) -> None:
        """Remember how long LLVM optimized; its text is the stage's own result,
        which comes later.
        """
        if call.name == "optimize_module":
            self._optimization = (call, seconds)

    def relocated(self, module: Any, folder: str) -> None:
        """Replace the folder in locations, which no pass changed: it is another one each time."""
        self._erased = (f"{folder}/", folder)
        self._text = str(module)
        self._stored = self._keep(self._text)

    def stage_made(self, name: str, content: str | bytes, seconds: float) -> None:
        """Keep what LLVM and the assembler made; the stages of MLIR have been seen pass by pass."""
        if isinstance(content, str):
            self.stage_texts[name] = content
        if name == "llir" and self._optimization is not None:
            assert isinstance(content, str)
            self._add_step(*self._optimization, self._keep(content))
        elif name in ("ptx", "amdgcn"):
            assert isinstance(content, str)
            self._add_step(PassCall(name, "translate_to_asm", 1), seconds, self._keep(content))
        elif name == "cubin":
            assert isinstance(content, bytes)
            text = DeferredText(functools.partial(_sass_or_why, content))
            self._add_step(PassCall("sass", "ptxas", 1), seconds, text)

    def _add_step(self, call: PassCall, seconds: float, stored: StoredText) -> None:
        self.passes.append(
            PassRun(
                call.stage,
                call.name,
                call.occurrence,
                call.arguments,
                seconds,
                True,
                _NO_OPS,
                _NO_OPS,
                stored,
            )
        )

    def _keep(self, text: str) -> StoredText:
        if text not in self._known:
            self._known[text] = StoredText(text, self._erased)
            _packer().submit(self._known[text].pack)
        return self._known[text]


@functools.cache
def _packer() -> ThreadPoolExecutor:
    """Compresses texts on a separate thread: zlib and LLVM both leave Python alone meanwhile."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="kernellab-packer")


os.register_at_fork(after_in_child=_packer.cache_clear)  # Its thread is the parent's.


def count_ops(module: Any) -> Mapping[str, int]:
    """Op name -> how many of these ops a module of MLIR has, nested ones included."""
    names: list[str] = []
    module.walk(lambda op: names.append(op.get_name()))
    return Counter(names)
