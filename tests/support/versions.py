"""What differs between the versions of Triton that KernelLab supports,
as far as the tests meet it.
"""

from packaging.version import Version
from triton import __version__

TRITON = Version(__version__)

HAS_SCALED_BATCHES = Version("3.7") <= TRITON
"""`tl.dot_scaled` takes batches of products."""
DESCRIPTORS_ROUND_TO_TF32 = Version("3.7") <= TRITON
"""A host's TensorDescriptor can have loads rounded to tf32."""
PREFETCHES_BY_PARTS = Version("3.8") <= TRITON
"""On sm_80 the pass `prefetch` cuts a product along K, which adds up in another order."""
REDUCES_IN_ONE_ROUND = Version("3.8") <= TRITON
"""Warps that reduce together each store their part and load all parts;
before, one warp loads them, and stores the result for all."""
COMBINES_WARPS_BY_REDUX = Version("3.9") <= TRITON
"""What the warps of a reduction of integers found is combined by REDUX too; before, by shuffles."""
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
CHAINS_COMPARISONS = Version("3.9") <= TRITON
"""`0 <= i < n` is taken in kernels."""
