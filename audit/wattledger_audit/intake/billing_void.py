"""Invoices that one file says are void and another, exported before, still has: none of their lines count."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from wattledger_audit.intake import billing_lago, billing_stripe, billing_stripe_csv
from wattledger_audit.intake.record import BillingLine
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.source import Source

_VOIDED_IN: Mapping[str, Callable[[Source], set[str]]] = {
    importer.name: voided_in
    for importers, voided_in in (
        (billing_lago.IMPORTERS, billing_lago.voided_in),
        (billing_stripe_csv.IMPORTERS, billing_stripe_csv.voided_in),
        (billing_stripe.IMPORTERS[:1], billing_stripe.voided_in),
    )
    for importer in importers
}


def voided_in(taken: Iterable[tuple[str, Source]]) -> dict[str, str]:
    """Delivery → the file that says that it is void, from `(format, source)` of the billing files."""
    found: dict[str, str] = {}
    for format_name, source in taken:
        for delivery in _VOIDED_IN[format_name](source) if format_name in _VOIDED_IN else ():
            found.setdefault(delivery, source.name)
    return found


def without_void(
    files: Sequence[tuple[str, list[BillingLine]]], voided: Mapping[str, str], rejections: Rejections
) -> list[tuple[str, list[BillingLine]]]:
    """The files without the lines of void deliveries, which are listed with their money."""
    kept: list[tuple[str, list[BillingLine]]] = []
    for name, lines in files:
        for line in lines:
            if line.delivery in voided:
                reason = f"voided: {line.delivery} is void in {voided[line.delivery]}, so nobody owes it"
                rejections.add(name, line.line, "delivery", line.delivery, reason, line.amount, line.currency)
        kept.append((name, [line for line in lines if line.delivery not in voided]))
    return kept
