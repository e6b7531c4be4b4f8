"""Groups of warps that hand tiles to each other."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def double(stages, filled, emptied, out_ptr, layout: gl.constexpr):
    lanes = gl.arange(0, 128, layout=layout)
    for number in range(5):
        mbarrier.wait(filled.index(number % 2), number // 2 & 1)
        tile = stages.index(number % 2).load(layout)
        mbarrier.arrive(emptied.index(number % 2), count=1)
        gl.store(out_ptr + number * 128 + lanes, 2 * tile)


@gluon.jit
def fill(stages, filled, emptied, x_ptr, last, layout: gl.constexpr):
    lanes = gl.arange(0, 128, layout=layout)
    for number in range(last):
        mbarrier.wait(emptied.index(number % 2), (number // 2 & 1) ^ 1)
        stages.index(number % 2).store(gl.load(x_ptr + number * 128 + lanes))
        mbarrier.arrive(filled.index(number % 2), count=1)


@gluon.jit
def producer_and_consumer(x_ptr, out_ptr, last):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    stages = gl.allocate_shared_memory(gl.float32, [2, 128], shared)
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(2):
        mbarrier.init(filled.index(stage), count=1)
        mbarrier.init(emptied.index(stage), count=1)
    first = gl.program_id(0) * 640
    gl.warp_specialize(
        [
            (double, (stages, filled, emptied, out_ptr + first, layout)),
            (fill, (stages, filled, emptied, x_ptr + first, last, layout)),
        ],
        [4],
        [128],
    )
