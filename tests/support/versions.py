"""What differs between the supported versions of torch and Triton, as the tests meet it."""

import torch
from packaging.version import Version
from triton import __version__

TRITON = Version(__version__)
TORCH = Version(torch.__version__)

TILES_GATHERS_BY_ROW = Version("2.13") > TORCH
"""Inductor's kernel of `weight[index]` has an axis for rows and one for columns."""

LAYS_OUT_TENSOR_MEMORY = Version("3.7") <= TRITON
"""Triton answers where a layout of tensor memory puts its elements."""
HAS_SCALED_BATCHES = Version("3.7") <= TRITON
"""`tl.dot_scaled` takes batches of products."""
DESCRIPTORS_ROUND_TO_TF32 = Version("3.7") <= TRITON
"""A host's TensorDescriptor can have loads rounded to tf32."""
NAMES_LAYOUTS_OF_TMA = Version("3.7") <= TRITON
"""Triton reports TMA from memory whose layout differs from the descriptor's as an error; before,
an assertion inside the compiler failed."""
PREFETCHES_BY_PARTS = Version("3.8") <= TRITON
"""On sm_80 the pass `prefetch` cuts a product along K, which adds up in another order."""
REDUCES_IN_ONE_ROUND = Version("3.8") <= TRITON
"""Warps that reduce together each store their part and load all parts;
before, one warp loads them, and stores the result for all."""
COMBINES_WARPS_BY_REDUX = Version("3.9") <= TRITON
"""What the warps of a reduction of integers found is combined by REDUX too; before, by shuffles."""
SPELLS_DESCRIPTORS_WITHOUT_TENSOR = Version("3.8") <= TRITON
"""The type of a tensor descriptor is `!tt.tensordesc<64x32xf16>` in the IR; before,
`!tt.tensordesc<tensor<64x32xf16>>`, which MLIR refuses since."""
COLUMNS_FROM_ONE = Version("3.8") <= TRITON
"""Columns of locations count from 1; before, from 0."""
NEGATES_ZEROS = Version("3.8") <= TRITON
"""`-x` of a float turns its sign round; before, it was 0 - x, which makes no negative zero."""
LOCATES_WHOLE_CALLS = Version("3.8") <= TRITON
"""An operation stands where its call begins; before, where the last
of its arguments' expressions did."""
WRITES_TENSOR_MAPS_TOGETHER = Version("3.9") <= TRITON
"""Its ptxas writes fields of a tensor map that share a word at once."""
HAS_BLOCK_POINTERS = Version("3.9") > TRITON
"""`tl.make_block_ptr` makes them; Triton 3.9 says NotImplementedError:
tensor descriptors have taken their place."""
WARNS_OF_BLOCK_POINTERS = Version("3.7") <= TRITON < Version("3.9")
"""The front end warns that `tl.make_block_ptr` will go."""
WARNS_OF_REORDERING = Version("3.9") <= TRITON
"""The front end warns of `can_reorder=True`, and of what has no effect in `tl.softmax`."""
STORES_POINTERS = Version("3.9") > TRITON
"""Pointers can be stored and loaded; Triton 3.9's compiler aborts in the process."""
WIDENS_RUNNING_BFLOAT16 = Version("3.9") > TRITON
"""`tl.cumsum` of bfloat16 is computed in float32;
from 3.9 on it is rounded at every step, as float16 always was."""
HAS_ATOMIC_LOADS = Version("3.9") <= TRITON
"""There are `tl.atomic_load`, `tl.atomic_store` and `tl.atomic_poll`,
and `tl.fdiv(..., approx=True)`."""
TRANSPOSES_UNSWIZZLED = Version("3.8") <= TRITON
"""A transposed `nvmma_shared` layout is transposed without a swizzle too."""
REFUSES_KEYWORD_PARAMETERS = Version("3.9") <= TRITON
"""`@triton.jit` itself raises a TypeError for a `**rest` parameter."""
ADDS_DOTS_TO_FLOAT16 = Version("3.8") <= TRITON
"""`tl.dot` of float16 takes an accumulator of float16 whatever `out_dtype` is."""
COMPUTES_SWAPS_TWICE = Version("3.9") <= TRITON
"""The TTGIR of `tl.sort` of a small tile computes each step once per layout, and swaps elements of
one copy by means of the other: the checker does not see that it is a swap."""
CHAINS_COMPARISONS = Version("3.9") <= TRITON
"""`0 <= i < n` is taken in kernels."""
