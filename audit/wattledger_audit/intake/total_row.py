"""Words by which a row says that it sums up the rows above it, so that it must not count once more."""

import re

from wattledger_audit.intake.currency_sign import CODES

_SUMS = (
    r"(grand|sub|overall|invoice|account|net|gross|running|sheet|page|column)?[ -]*totals?",
    r"(sub|grand)?[ -]*sum(s)?",
    r"(zwischen|end|gesamt|teil)?summe(n)?",
    r"(gesamt|end|rechnungs)betrag",
    r"(ins)?gesamt",
    r"(sous|sub)?[ -]*tota(l|ux|al|le|is|les)( (général|general|generale|geral|generaal))?",
    r"(suma|somme|somma|soma)( total)?",
    r"all (tenants|customers|accounts|projects)",
)
_TAILS = (
    r"( (amount|cost|costs|charges?|due|payable|sum|price|netto|brutto|net|gross|betrag|kosten)"
    r"| (excl|incl|ex|in)\.? .*| (for|of|für|per) .*|[ -]*\(.*\))*"
)
_TOTAL = re.compile(rf"({'|'.join(_SUMS)}){_TAILS}", re.IGNORECASE)
_EDGES = " \t\u00a0:;.*#=-–—_|"


def is_total_word(text: str) -> bool:
    """Whether a cell (tenant, SKU, invoice id or description) is the label of a total row, such as `Grand total:`.

    A tenant called `Total Energies` or `Summit` is none; a cell that only says `∑` is.
    """
    bare = text.strip().lower()
    if bare in ("∑", "σ", "ς"):
        return True
    bare = " ".join(bare.strip(_EDGES).split())
    head, _, last = bare.rpartition(" ")
    if head and last.upper().strip("()") in CODES:
        bare = head
    return bool(_TOTAL.fullmatch(bare.strip(_EDGES)))
