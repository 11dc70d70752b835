"""Runs in explanations: where the log says each, where it ran, how it ended, who pays for it and why."""

import re
from collections.abc import Iterable

from wattledger_audit.assessment.assess import Assessment
from wattledger_audit.assessment.cost_book import DEFAULT_BEARERS
from wattledger_audit.assessment.run_book import NONE_US
from wattledger_audit.explain_value import RunHeld
from wattledger_audit.report.amount_text import kwh, part_hours
from wattledger_audit.shown_time import local_text


def runs_of_tenant(assessment: Assessment, tenant: str) -> list[int]:
    """Its runs inside the period, those with most GPU-hours first."""
    runs, resolve, parts = assessment.runs, assessment.terms.names.resolve, assessment.swept.run_parts
    whos = {at for at, who in enumerate(runs.whos) if resolve("usage", who.tenant) == tenant}
    numbers = runs.held_numbers(assessment.period.start_us, assessment.period.end_us)
    return sorted((n for n in numbers if runs.who[n] in whos), key=lambda n: (-parts[n], n))


_PART = re.compile(r"(\d+)[+_]\d+")


def runs_of_job(assessment: Assessment, text: str) -> dict[str, list[int]]:
    """Runs of the job that `text` names, as `job` or `cluster/job`, by cluster; of a heterogeneous job or an array, all
    components (`123+0`) and tasks (`123_4`) where `text` is their leader's id."""
    runs = assessment.runs
    found: dict[str, list[int]] = {}
    for number, job in enumerate(runs.jobs):
        part = _PART.fullmatch(job)
        leader = part.group(1) if part else job
        if not text.endswith((job, leader)):
            continue
        cluster = runs.whos[runs.who[number]].cluster
        if text in (job, f"{cluster}/{job}", leader, f"{cluster}/{leader}"):
            found.setdefault(cluster, []).append(number)
    return found


def shown_runs(assessment: Assessment, numbers: Iterable[int]) -> tuple[RunHeld, ...]:
    """The runs in the order given."""
    return tuple(_shown(assessment, number) for number in numbers)


def _shown(assessment: Assessment, number: int) -> RunHeld:
    runs, swept, zone = assessment.runs, assessment.swept, assessment.period.zone
    who, shape = runs.whos[runs.who[number]], runs.shapes[runs.shape[number]]
    start_us, end_us = runs.start_us[number], runs.end_us[number]
    payer, why = _payer(assessment, number)
    counted = number not in swept.uncounted
    return RunHeld(
        where=f"{assessment.gathered.run_files[runs.file[number]]}:{runs.line[number]}",
        cluster=who.cluster,
        job=runs.jobs[number],
        project=who.project,
        nodes=", ".join(assessment.fleet.name_of(who.cluster, node) for node in shape.nodes),
        device=shape.device,
        gpus=shape.gpus,
        share="" if shape.share_num == shape.share_den else f"{shape.share_num}/{shape.share_den}",
        start="" if start_us == NONE_US else local_text(start_us, zone),
        end=None if end_us == NONE_US else local_text(end_us, zone),
        state=who.state,
        gpu_hours=part_hours(swept.run_parts[number]) if counted else None,
        energy_kwh=kwh(assessment.measured.run_uj.get(number)),
        payer=payer,
        why=why,
    )


def _payer(assessment: Assessment, number: int) -> tuple[str, str]:
    """Who pays, and the rule that says so."""
    who = assessment.runs.whos[assessment.runs.who[number]]
    tenant = assessment.terms.names.resolve("usage", who.tenant)
    said = assessment.terms.terms_of(tenant).bearers.get(who.state)
    bearer = assessment.terms.bearer(tenant, who.state)
    if said:
        why = f"{who.state}: the {bearer}, as the cost file says under bearer"
    elif who.state in DEFAULT_BEARERS:
        why = f"{who.state}: the provider bears it unless the cost file says otherwise"
    else:
        why = f"{who.state or 'no end state'}: the tenant pays for what it held"
    return (tenant or "nobody is named") if bearer == "tenant" else "the provider", why
