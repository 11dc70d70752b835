"""Host names folded to the shortest host list, such as `gpu[01-16,20],login1`; `intake.slurm_hostlist` expands it."""

import re
from collections.abc import Iterable

_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,9})([^0-9]*)", re.DOTALL)
_LISTABLE = re.compile(r"[^,\[\]\s]+")


def can_list(name: str) -> bool:
    """Whether a name can stand in a host list: no blank, comma or bracket in it."""
    return _LISTABLE.fullmatch(name) is not None


def fold_hosts(names: Iterable[str]) -> str:
    """One host list of names that can be listed, each folded at its last number; expanding it gives the same names."""
    groups: dict[tuple[str, str], list[str]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        found = _LAST_NUMBER.fullmatch(name)
        if found:
            groups.setdefault((found[1], found[3]), []).append(found[2])
        else:
            plain.append(name)
    folded = [_folded(before, numbers, after) for (before, after), numbers in groups.items()]
    return ",".join(sorted([*plain, *folded]))


def _folded(before: str, numbers: list[str], after: str) -> str:
    if len(numbers) == 1:
        return f"{before}{numbers[0]}{after}"
    runs: list[list[str]] = []
    for number in sorted(numbers, key=lambda digits: (len(digits), int(digits))):
        if runs and str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][0])) == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"{before}[{','.join(shown)}]{after}"
