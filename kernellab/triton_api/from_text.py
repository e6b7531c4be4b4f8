"""Kernels made of the texts that `standalone.py` writes, by running them."""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from triton.runtime.jit import JITCallable

from kernellab.common.text import remember_source
from kernellab.triton_api.standalone import MAIN


def kernel_of_text(text: str, name: str, modules: Mapping[str, str]) -> Any:
    """The kernel of that name in a text of `standalone_text`, which is run,
    and so are those of the modules that it imports.

    Modules of the process that have the same names are neither used nor replaced.

    Raises:
        SyntaxError, NameError, AttributeError, ImportError, KeyError: the text is not one of a
            kernel, or of another Triton.
    """
    kernel = vars(_Texts(text, name, modules).module(MAIN))[name]
    if not isinstance(kernel, JITCallable):
        raise KeyError(name)
    return kernel


class _Texts:
    """Texts by the name of their module, each run when it is imported first."""

    def __init__(self, text: str, kernel: str, modules: Mapping[str, str]) -> None:
        self._texts = {**modules, MAIN: text}
        self._made: dict[str, ModuleType] = {}
        whole = hashlib.sha256(repr(sorted(self._texts.items())).encode())
        self._digest = whole.hexdigest()[:8]
        self._kernel = kernel

    def module(self, name: str) -> ModuleType:
        """The module of that name, made where it is not yet;
        a package without a text is an empty one.
        """
        if name not in self._made:
            shown = f"kernellab_saved_{self._digest}" if name == MAIN else name
            made = self._made[name] = ModuleType(shown)
            self._run(made, self._texts.get(name, ""), self._kernel if name == MAIN else name)
        return self._made[name]

    def _run(self, module: ModuleType, text: str, title: str) -> None:
        file = f"<{title}, from a saved sweep, {self._digest}>"
        # Triton reads a function's source by its file; this one is nowhere else.
        remember_source(file, text)
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._import}
        exec(compile(text, file, "exec", dont_inherit=True), vars(module))  # noqa: S102

    def _import(
        self,
        name: str,
        scope: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        wanted: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Python's `__import__`, with the texts before everything else."""
        if level or not self._is_saved(name):
            return builtins.__import__(name, scope, variables, wanted or (), level)
        module = self.module(name)
        for needed in wanted or ():
            if self._is_saved(f"{name}.{needed}"):
                setattr(module, needed, self.module(f"{name}.{needed}"))
        return module

    def _is_saved(self, name: str) -> bool:
        """Whether there is a text of the module, or of one inside it."""
        return any(text == name or text.startswith(f"{name}.") for text in self._texts)
