"""Whether a program fits on the emulated GPU."""

import pytest

from kernellab import triton_api
from kernellab.interpreter.execution.program import program_code
from kernellab.launch.preparation import EntryPoint, prepare
from kernellab.triton_api.pipeline import shared_bytes
from tests.corpus.entries import ENTRIES
from tests.corpus.launches import LAUNCHES
from tests.corpus.loader import accepting


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "gfx942"])
@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES if entry.name in LAUNCHES], ids=lambda entry: entry.name
)
def test_no_kernel_needs_more_shared_memory_than_is_estimated(entry, target) -> None:
    if target not in {accepted.name for accepted in accepting(entry)}:
        pytest.skip(f"the kernel does not compile for {target}")
    launch, constants = LAUNCHES[entry.name], {**entry.constants, **entry.options}
    prepared = prepare(
        entry.kernel, launch.grid, launch.make(), constants, target, EntryPoint("fit")
    )
    kernel, call, chosen = prepared.kernel, prepared.call, prepared.target
    options = {**triton_api.backend_options(chosen), **call.options}
    sizes = program_code(kernel, call, chosen).tile_bytes
    allocated = shared_bytes(kernel, call.specialization, chosen, call.options)
    assert allocated <= sizes.most_shared(int(options.get("num_stages") or 1))
