"""Objects that Triton takes for pointers, as other libraries have them."""

from typing import Any

import torch


class Pointer:
    """An object with an address, or the exception that asking for it raises, and a dtype."""

    def __init__(self, address: Any, dtype: Any = torch.float32, **said: Any) -> None:
        self._address = address
        self.dtype = dtype
        vars(self).update(said)

    def data_ptr(self) -> Any:
        if isinstance(self._address, Exception):
            raise self._address
        return self._address
