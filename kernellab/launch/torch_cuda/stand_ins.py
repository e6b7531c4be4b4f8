"""Classes that replace torch's while a thread is inside."""

from __future__ import annotations

from typing import Any

import torch

from kernellab.launch.torch_cuda.sessions import current_session


class StandIn(type(torch.Generator)):  # type: ignore[misc] # the metaclass of all of torch's
    """A class in the place of torch's, `original`: outside it makes what that makes."""

    original: type[Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if current_session() is None:
            return cls.original(*args, **kwargs)
        return cls.made(*args, **kwargs)

    def made(cls, *args: Any, **kwargs: Any) -> Any:
        """What is made inside."""
        return super().__call__(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, cls.original)
