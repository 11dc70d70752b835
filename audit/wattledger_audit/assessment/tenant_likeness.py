"""Which name in one source is likely the tenant of another: `Acme Inc.` and `acme`. A guess, for a person to check."""

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from unicodedata import combining, normalize

LEGAL_WORDS = frozenset((
    "ab", "ag", "aps", "as", "asa", "bhd", "bv", "co", "company", "corp", "corporation", "gmbh", "inc", "incorporated",
    "kg", "kgaa", "kk", "limited", "llc", "llp", "lp", "ltd", "mbh", "nv", "oy", "oyj", "plc", "pte", "pty", "sa",
    "sarl", "sas", "sdn", "se", "spa", "srl", "the", "ug",
))  # fmt: skip
_LIKE_RATIO = 0.84
_SHORTEST = 4
"""Names shorter than this are only ever the same, never alike."""
Words = tuple[str, ...]
Test = Callable[[Words], bool]
_WORD = re.compile(r"[^\W_]+")
_DIGITS = re.compile(r"\d+")


def bare_words(name: str) -> Words:
    """A name's words without case, accents, punctuation and legal form; all its words where nothing else is left."""
    folded = normalize("NFKD", name.casefold())
    plain = "".join(letter for letter in folded if not combining(letter))
    words = tuple(_WORD.findall(plain.replace(".", "").replace("'", "").replace("’", "")))
    return tuple(word for word in words if word not in LEGAL_WORDS) or words


def likely_tenants(names: Iterable[str], tenants: Iterable[str]) -> dict[str, str]:
    """For each name the one tenant that it is like, where each is like no other of its kind.

    The same bare words come first; then words that start alike, or spellings that differ little. Names whose numbers
    differ are never alike.
    """
    open_names, open_tenants = sorted(set(names)), sorted(set(tenants))
    found: dict[str, str] = {}
    for alike in (_same, _similar):
        words = {name: bare_words(name) for name in (*open_names, *open_tenants)}
        tests = [(tenant, alike(words[tenant])) for tenant in open_tenants]
        pairs = [(name, tenant) for tenant, test in tests for name in open_names if test(words[name])]
        found |= _unique(pairs)
        open_names = [name for name in open_names if name not in {pair[0] for pair in pairs}]
        open_tenants = [tenant for tenant in open_tenants if tenant not in {pair[1] for pair in pairs}]
    return found


def _unique(pairs: list[tuple[str, str]]) -> Mapping[str, str]:
    by_name: dict[str, list[str]] = {}
    by_tenant: dict[str, list[str]] = {}
    for name, tenant in pairs:
        by_name.setdefault(name, []).append(tenant)
        by_tenant.setdefault(tenant, []).append(name)
    return {name: tenant for name, tenant in pairs if len(by_name[name]) == len(by_tenant[tenant]) == 1}


def _same(tenant: Words) -> Test:
    wanted = "".join(tenant)
    return lambda name: "".join(name) == wanted


def _similar(tenant: Words) -> Test:
    wanted = "".join(tenant)
    digits = _DIGITS.findall(wanted)
    matcher = SequenceMatcher(None, "", wanted, autojunk=False)

    def alike(name: Words) -> bool:
        given = "".join(name)
        if min(len(given), len(wanted)) < _SHORTEST or _DIGITS.findall(given) != digits:
            return False
        shared = min(len(name), len(tenant))
        if name[:shared] == tenant[:shared]:
            return True
        matcher.set_seq1(given)
        quick = matcher.real_quick_ratio() >= _LIKE_RATIO and matcher.quick_ratio() >= _LIKE_RATIO
        return quick and matcher.ratio() >= _LIKE_RATIO

    return alike
