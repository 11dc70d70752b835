"""Who there is in an audit's files: tenants by the audit's names, and which one a person means."""

from wattledger_core.line import RESERVED_TENANTS

from wattledger_audit.assessment.assess import Assessment

_SOURCES = ("usage", "billing", "telemetry")


def tenants_of(assessment: Assessment) -> list[str]:
    """Tenants that use, hold a reservation or are billed, whenever, in order of names."""
    names, gathered = assessment.terms.names, assessment.gathered
    found = {names.resolve("usage", who.tenant) for who in gathered.runs.whos}
    found |= {names.resolve("usage", each.tenant) for each in gathered.reservations}
    found |= {names.resolve("billing", line.tenant) for _, lines in gathered.billing for line in lines}
    return sorted(found - {""} - set(RESERVED_TENANTS))


def tenant_meant(assessment: Assessment, text: str) -> str | None:
    """The tenant of that name, alias or spelling; None where the files have none."""
    known = set(tenants_of(assessment))
    spelled = (assessment.terms.names.resolve(source, text) for source in _SOURCES)
    return next((name for name in (text, *spelled) if name in known), None)
