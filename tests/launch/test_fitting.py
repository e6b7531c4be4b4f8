"""Whether a program fits on the emulated GPU."""

import pytest

from kernellab import triton_api
from kernellab.interpreter.execution.program import program_code
from kernellab.launch.preparation import EntryPoint, prepare
from kernellab.triton_api.pipeline import shared_bytes
from tests.corpus.launches import LAUNCHES
from tests.corpus.loader import launched, name_of


@pytest.mark.slow
@pytest.mark.covering
@pytest.mark.parametrize(
    ("entry", "target"), launched(("sm_80", "sm_90", "sm_100", "gfx942")), ids=name_of
)
def test_no_kernel_needs_more_shared_memory_than_is_estimated(entry, target) -> None:
    launch, constants = LAUNCHES[entry.name], {**entry.constants, **entry.options}
    prepared = prepare(
        entry.kernel, launch.grid, launch.make(), constants, target, EntryPoint("fit")
    )
    kernel, call, chosen = prepared.kernel, prepared.call, prepared.target
    options = {**triton_api.backend_options(chosen), **call.options}
    sizes = program_code(kernel, call, chosen).tile_bytes
    allocated = shared_bytes(kernel, call.specialization, chosen, call.options)
    assert allocated <= sizes.most_shared(int(options.get("num_stages") or 1))
