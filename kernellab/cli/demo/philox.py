"""Philox4x32-10 in NumPy, written from its paper: the dropout kernel's mask, known without Triton.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The constants
are the paper's; the test checks the known answers that Random123, its authors' library, publishes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

ROUNDS = 10
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
KEY_INCREMENTS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
LOW_32 = np.uint64(0xFFFFFFFF)


def philox4x32(
    counter: tuple[Words, Words, Words, Words], key: tuple[int, int]
) -> tuple[Words, Words, Words, Words]:
    """Ten rounds of Philox on four words of counter (arrays of uint32, one shape)
    with two words of key.
    """
    c0, c1, c2, c3 = (word.astype(np.uint64) for word in counter)
    k0, k1 = (np.uint64(word) for word in key)
    for _ in range(ROUNDS):
        product_0 = MULTIPLIERS[0] * c0
        product_1 = MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (product_1 >> np.uint64(32)) ^ c1 ^ k0,
            product_1 & LOW_32,
            (product_0 >> np.uint64(32)) ^ c3 ^ k1,
            product_0 & LOW_32,
        )
        k0 = (k0 + KEY_INCREMENTS[0]) & LOW_32
        k1 = (k1 + KEY_INCREMENTS[1]) & LOW_32
    w0, w1, w2, w3 = (word.astype(np.uint32) for word in (c0, c1, c2, c3))
    return w0, w1, w2, w3


def uniform(seed: int, offsets: NDArray[np.int32]) -> NDArray[np.float32]:
    """What Triton documents for `tl.rand(seed, offsets)`:
    fp32 in [0, 1), of the shape of `offsets`.

    The offset is the counter's first word and the seed is the key. The first word that Philox
    gives, taken as a signed integer, is folded to a non-negative one (-1 to 0, -2 to 1, ...) and
    scaled by just under 2**-31, so that the largest stays below 1.
    """
    zero = np.zeros_like(offsets, dtype=np.uint32)
    counter = (offsets.view(np.uint32), zero, zero, zero)
    word = philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))[0].view(np.int32)
    folded = np.where(word < 0, ~word, word)
    return folded.astype(np.float32) * np.float32(4.6566127342e-10)
