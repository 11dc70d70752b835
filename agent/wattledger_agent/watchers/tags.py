"""Who may name the tenant and the model of its own work, and what such a name may look like. Reads nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from wattledger_agent.watchers.process_table import MODEL_VARIABLE, TENANT_VARIABLE
from wattledger_agent.watchers.run import Finding

_RANGE = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?")
_VALUE = re.compile(r"[^\W_](?:[\w.:/@+ -]*[^\W_]|[\w.:/@+ -]*[+])?")
"""Letters and digits of any script, and `. : / @ + - _` and spaces inside: no reserved `__name__`, nothing that a
spreadsheet takes for a formula."""
MOST_SHOWN = 64
_MOST_UID = 4_294_967_294


@dataclass(frozen=True, slots=True)
class Uids:
    """A set of user ids: half-open ranges. `is_all`: everybody."""

    ranges: tuple[tuple[int, int], ...] = ()
    is_all: bool = False

    @classmethod
    def parse(cls, text: str) -> "Uids":
        """From `all`, `none` (or nothing), or a list such as `1000-1999,2500`. Raises ValueError that says which part
        is wrong."""
        word = text.strip().lower()
        if word == "all":
            return cls(is_all=True)
        ranges = []
        for part in word.split(",") if word not in ("", "none") else ():
            match = _RANGE.fullmatch(part.strip())
            if match is None:
                raise ValueError(
                    f"uids {text!r}: {part.strip()!r} is no uid and no range: write all, none or 1000-1999,2500"
                )
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first or last > _MOST_UID:
                raise ValueError(f"uids {text!r}: {part.strip()!r} is no rising range of uids up to {_MOST_UID}")
            ranges.append((first, last + 1))
        return cls(tuple(sorted(ranges)))

    def __contains__(self, uid: object) -> bool:
        return isinstance(uid, int) and (self.is_all or any(first <= uid < end for first, end in self.ranges))


@dataclass(frozen=True, slots=True)
class TagRule:
    """Which uids may tag themselves, and how long a value may be (characters)."""

    may_tag: Uids = Uids()
    most_characters: int = 128


@dataclass(frozen=True, slots=True)
class Tags:
    """What of a process's own tags counts; empty: none. `findings` say what was refused and why."""

    tenant: str = ""
    model: str = ""
    findings: tuple[Finding, ...] = ()


def accept_tags(source: str, who: str, uid: int | None, carried: Mapping[str, str], rule: TagRule) -> Tags:
    """The tags that `who` (named in findings) may set. A uid that is unknown may set none."""
    accepted: dict[str, str] = {}
    findings = []
    for variable in (TENANT_VARIABLE, MODEL_VARIABLE):
        value = carried.get(variable, "").strip()
        if not value:
            continue
        if uid not in rule.may_tag:
            user = "an unknown uid" if uid is None else f"uid {uid}"
            # what it says stays here: it may not say it
            detail = f"{who} of {user} sets {variable}, which it may not: "
            detail += "allow its uid to tag itself, or have it unset the variable"
            findings.append(Finding(source, "tag_not_allowed", detail))
        elif (wrong := _wrong(value, rule.most_characters)) is not None:
            detail = f"{who} sets {variable}={value[:MOST_SHOWN]!r}: {wrong}"
            findings.append(Finding(source, "tag_malformed", detail))
        else:
            accepted[variable] = value
    return Tags(accepted.get(TENANT_VARIABLE, ""), accepted.get(MODEL_VARIABLE, ""), tuple(findings))


def _wrong(value: str, most_characters: int) -> str | None:
    if len(value) > most_characters:
        return f"{len(value)} characters, at most {most_characters} are taken: shorten it"
    if _VALUE.fullmatch(value) is None:
        return "it must begin with a letter or digit and hold only letters, digits, spaces and . : / @ + - _ inside"
    return None
