"""One name for one thing: GPU models, tenants and SKUs as sources write them, brought to the names of the audit.

Only spelling is bridged (case, blanks, punctuation, vendor words). Anything further is left apart and suggested.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_FAMILY = re.compile(
    r"(?:(?<![a-z0-9])|(?<=gpu)|(?<=\dx)|(?<=nvidia)|(?<=tesla)|(?<=[dh]gx))"
    r"(gb[23]00|gh200|b[23]00|h[12]00|h800|h20|a100|a800|a40|a30|a16|a10g?|a2(?!-?(?:high|mega|ultra))|l40s?|l20|l4"
    r"|v100s?|p100|p40|t4|k80|mi\d{2,3}[ax]?|rtx[\s_-]*(?:pro[\s_-]*)?\d{4}|gaudi\s?\d?"
    r"|(?:[1-5]0|16)[5-9]0(?=\s*(?:ti|super)?$))(?!\d)",
)
_MEMORY = re.compile(r"(?<![a-z0-9])(?<!\dg\.)(\d{2,3})\s*g(?:i?b)?(?![a-z0-9])")
_FORM = re.compile(r"(?<![a-z])(sxm|pcie|nvl|hgx)")


def squeezed(text: str) -> str:
    """The text without case, blanks and punctuation: what two spellings of one name have in common."""
    return re.sub(r"[\W_]+", "", text.casefold())


def spelling(text: str) -> str:
    """A tenant's name but for case and which separators stand between its words: `Acme Labs` and `acme_labs` are one,
    `team-1-1` and `team-11` are two."""
    return re.sub(r"[\s_.,-]+", "-", text.casefold()).strip("-")


def model_family(text: str) -> str:
    """The GPU family that a text names (`NVIDIA H100 80GB HBM3` → `h100`), or empty."""
    found = _FAMILY.search(text.casefold())
    return re.sub(r"[\s_-]+", "", found.group(1)) if found else ""


def model_memory(text: str) -> str:
    """The memory size in a model's name in GB, or empty."""
    found = _MEMORY.search(text.casefold().replace("-", " ").replace("_", " "))
    return found.group(1) if found else ""


def model_forms(text: str) -> set[str]:
    """The forms that a model's name says (`sxm`, which an HGX board has, `pcie`, `nvl`)."""
    return {"sxm" if form == "hgx" else form for form in _FORM.findall(text.casefold())}


class ModelNames:
    """GPU models by the names of the cost file and the fleet. `resolve` keeps what it can't bring to one of them."""

    def __init__(self, known: Iterable[str]) -> None:
        self.known = tuple(dict.fromkeys(name for name in known if name))
        self._memo: dict[str, str] = {}

    def resolve(self, text: str) -> str:
        """The known name that is the same but for spelling; else the only one of its family (and memory size)."""
        found = self._memo.get(text)
        if found is None:
            found = self._memo[text] = self._find(text)
        return found

    def _find(self, text: str) -> str:
        if not text:
            return ""
        same = [name for name in self.known if squeezed(name) == squeezed(text)]
        if same:
            return same[0]
        family = model_family(text)
        if not family:
            return text
        kin = [name for name in self.known if model_family(name) == family]
        memory, form = model_memory(text), model_forms(text)
        if memory:
            kin = [name for name in kin if model_memory(name) in ("", memory)]
        if form and len(kin) > 1:
            kin = [name for name in kin if model_forms(name) & form] or kin
        if memory and len(kin) > 1:
            kin = [name for name in kin if model_memory(name) == memory] or kin
        return kin[0] if len(kin) == 1 else text


@dataclass(slots=True)
class TenantNames:
    """Tenants by one name. `aliases`: {source: {alias: name}}, source `""` for any. Names that differ in spelling
    only are one tenant: the first one seen gives its name."""

    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    seen: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _canonical: dict[str, str] = field(default_factory=dict)
    _memo: dict[tuple[str, str], str] = field(default_factory=dict)

    def resolve(self, source: str, text: str) -> str:
        """The audit's name of a tenant that `source` calls `text`."""
        key = (source, text)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._find(source, text)
            self.seen[source].add(found)
        return found

    def _find(self, source: str, text: str) -> str:
        if not self._canonical:
            self._canonical = {spelling(name): name for name in reversed(self.names) if spelling(name)}
        for table in (self.aliases.get(source, {}), self.aliases.get("", {})):
            if text in table:
                return table[text]
            for alias, name in table.items():
                if spelling(alias) == spelling(text) and spelling(text):
                    return name
        if not spelling(text):
            return text
        return self._canonical.setdefault(spelling(text), text)
