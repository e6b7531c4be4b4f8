"""What launches leave in their tensors, and how far two of them are apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from kernellab.records.bisections import Difference

Contents = Mapping[str, torch.Tensor]
"""What a run left in the tensors among its arguments, by name."""


def differences_between(
    expected: Contents, found: Contents, rtol: float, atol: float
) -> Iterator[Difference]:
    """One Difference for each argument that is off by more than it may be:
    `atol + rtol * |expected|`; by a bit where both are 0.
    """
    for name, right in expected.items():
        want, got = right.double(), found[name].double()
        same = (want == got) & (want.signbit() == got.signbit()) | (want.isnan() & got.isnan())
        distance = (got - want).abs()
        off = ~same & ~(distance <= atol + rtol * want.abs()) if rtol or atol else ~same
        if off.any():
            flat = torch.where(off, distance.nan_to_num(nan=torch.inf), -1.0).argmax()
            place = tuple(int(index) for index in torch.unravel_index(flat, off.shape))
            yield Difference(
                name,
                int(off.sum()),
                off.numel(),
                float(distance[place]),
                place,
                right[place].item(),
                found[name][place].item(),
            )
