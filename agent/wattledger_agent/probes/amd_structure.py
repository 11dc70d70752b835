"""A C structure of the wrapper, filled by the library with room behind it. Knows no meaning of its fields."""

import ctypes
from collections.abc import Callable
from typing import Any, Final, Self

_ROOM: Final = 1 << 14
"""Bytes behind a structure: a library of another version may write more than the wrapper's structure holds."""
_UNTOUCHED: Final = 0xA5


class FilledStructure:
    """One structure and the function that fills it. All bytes are ones before each call, so that a field that the
    library leaves alone reads as "no value"."""

    def __init__(self, name: str, structure: type[ctypes.Structure], function: Callable[..., int]) -> None:
        self.name = name
        self.size = ctypes.sizeof(structure)
        self._function = function
        self._buffer = bytearray(self.size + _ROOM)
        self.value: Any = structure.from_buffer(self._buffer)
        self.names = [name for name, *_ in structure._fields_ if not name.startswith(("PADDING", "reserved"))]

    @classmethod
    def of(cls, module: Any, structure: str, function: str) -> Self | None:
        """None where the module shows no such structure or function (a wrapper of another make)."""
        wrapper = getattr(module, "amdsmi_wrapper", None)
        kind, called = getattr(wrapper, structure, None), getattr(wrapper, function, None)
        if not isinstance(kind, type) or not issubclass(kind, ctypes.Structure) or called is None:
            return None
        return cls(structure, kind, called)

    def fill(self, handle: object) -> int:
        """Call the function; gives its status."""
        ctypes.memset(ctypes.addressof(self.value), 0xFF, self.size)
        return int(self._function(handle, ctypes.byref(self.value)))

    def is_overrun(self, handle: object) -> bool:
        """Whether the library writes behind the end of the structure."""
        ctypes.memset(ctypes.addressof(self.value) + self.size, _UNTOUCHED, _ROOM)
        self.fill(handle)
        return any(byte != _UNTOUCHED for byte in self._buffer[self.size :])
