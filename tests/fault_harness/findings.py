"""What a check found: expected beside seen, with the first few differences in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SHOWN = 4


@dataclass
class Finding:
    """One thing checked."""

    what: str
    expected: str
    seen: str
    ok: bool


def equal(what: str, expected: object, seen: object) -> Finding:
    """Right when both read the same."""
    return Finding(what, str(expected), str(seen), str(expected) == str(seen))


@dataclass(slots=True)
class Difference:
    """Two mappings compared key by key, window after window."""

    name: str
    same: int = 0
    missing: int = 0
    surplus: int = 0
    other: int = 0
    told: list[str] = field(default_factory=list)

    def compare(self, expected: Mapping[Any, Any], seen: Mapping[Any, Any]) -> None:
        """Count what is the same and what is not; keep the first differences."""
        for key, value in expected.items():
            there = seen.get(key)
            if there == value:
                self.same += 1
            elif there is None:
                self.missing += 1
                self._tell(f"missing {key}: {value}")
            else:
                self.other += 1
                self._tell(f"{key}: expected {value}, seen {there}")
        for key in seen.keys() - expected.keys():
            self.surplus += 1
            self._tell(f"not true {key}: {seen[key]}")

    def finding(self) -> Finding:
        """How many keys agree; right when all do."""
        total = self.same + self.missing + self.other
        wrong = self.missing + self.surplus + self.other
        seen = (
            f"{self.same} as expected, {self.missing} missing, {self.surplus} not true, {self.other} with other amounts"
        )
        return Finding(
            f"{self.name} net of reversals, key by key", f"{total} keys", "\n".join([seen, *self.told]), not wrong
        )

    def _tell(self, text: str) -> None:
        if len(self.told) < _SHOWN:
            self.told.append(text)
