"""`torch.compile(model, backend="kernellab")`: the model runs on the CPU and leaves a report.

torch finds it by its entry point. `options` takes what `kernellab.graph` takes of them: "gpu", and
"run": "aten" to run ATen operations, "triton" to run the generated kernels on the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernellab.common.argument_checks import check_choice
from kernellab.errors import OptionError, suggestion
from kernellab.graphs.capturing import capture_of, with_sources
from kernellab.graphs.gpus import Gpu, gpu_named
from kernellab.graphs.report import GraphReport

if TYPE_CHECKING:
    from kernellab.torch_api.capturing import Backend

RUNS = ("aten", "triton")

_OWN = ("gpu", "run", "levels")

_latest: tuple[Backend, Gpu] | None = None
"""What the last Dynamo graph of this process was compiled with, and for."""


def kernellab_backend(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_rest: Any
) -> Callable[..., Any]:
    """As torch.compile calls a backend, with each Dynamo graph.

    Raises:
        OptionError: an option of a wrong value.
        TargetError: no GPU is called so.
    """
    given = dict(options or {})
    gpu = gpu_named(given.pop("gpu", "h200"))
    run = given.pop("run", RUNS[0])
    check_choice("run", run, RUNS)
    levels = bool(given.pop("levels", False))
    backend = _backend(gpu, run, levels, given)
    return backend(module, inputs)


def _backend(gpu: Gpu, run: str, levels: bool, config: Mapping[str, Any]) -> Backend:
    global _latest
    from kernellab.graphs.running import run_code
    from kernellab.torch_api.capturing import Backend, option_names, run_aten

    known = option_names()
    for name in config:
        if name not in known:
            raise OptionError(
                f"backend 'kernellab' has no option {name!r}",
                advice=suggestion(name, [*_OWN, *known], "Its own:"),
            )
    made = Backend(
        gpu.answering(),
        config=config,
        levels=levels,
        runner=run_code if run == "triton" else run_aten,
        runs_code=run == "triton",
    )
    _latest = made, gpu
    return made


def last_report() -> GraphReport:
    """What `backend="kernellab"` compiled in this process, the last Dynamo graph of it.

    Raises:
        OptionError: nothing was compiled with it.
    """
    if _latest is None:
        raise OptionError(
            "nothing was compiled with backend='kernellab' in this process",
            advice='Call what torch.compile(model, backend="kernellab") gives first.',
        )
    backend, gpu = _latest
    found = capture_of(backend.captured, "torch.compile", gpu, 0.0)
    return GraphReport(with_sources(found))
