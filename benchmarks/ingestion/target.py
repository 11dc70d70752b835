"""One target beside what was measured."""

from typing import NamedTuple


class Row(NamedTuple):
    """`met` is None where it could not be decided."""

    target: str
    measured: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return {True: "met", False: "missed", None: "not decided"}[self.met]

    def __str__(self) -> str:
        return f"{self.target}: {self.verdict}, {self.measured}"
