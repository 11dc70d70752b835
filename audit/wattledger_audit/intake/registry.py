"""Every importer there is, as an explicit list, and which one takes a file: the surest by content."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from wattledger_audit.intake import (
    billing_aws_cur,
    billing_azure,
    billing_canonical,
    billing_focus,
    billing_gcp,
    billing_lago,
    billing_nerc,
    billing_oci,
    billing_stripe,
    costs_yaml,
    events_sacctmgr,
    fleet_inventory,
    fleet_reservations,
    fleet_scontrol,
    telemetry_exposition,
    telemetry_nvidia_smi,
    telemetry_prometheus,
    usage_canonical,
    usage_kube_state,
    usage_opencost,
    usage_sacct,
    usage_sacct_json,
)
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.near_miss import near_miss
from wattledger_audit.intake.record import ROLES
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import Source, open_source

_MODULES = (
    usage_canonical, usage_sacct, usage_sacct_json, usage_opencost, usage_kube_state, billing_canonical, billing_focus,
    billing_stripe, billing_lago, billing_aws_cur, billing_azure, billing_gcp, billing_oci, billing_nerc,
    fleet_inventory, fleet_reservations, fleet_scontrol, events_sacctmgr, telemetry_nvidia_smi, telemetry_prometheus,
    telemetry_exposition, costs_yaml,
)  # fmt: skip
IMPORTERS: tuple[Importer, ...] = tuple(importer for module in _MODULES for importer in module.IMPORTERS)


class Taken(NamedTuple):
    """A file and the importer that takes it, with what was found; `others` could have, less surely."""

    source: Source
    importer: Importer
    found: Detection
    others: tuple[tuple[str, int], ...]


def take(path: Path, role: str | None, encoding: str | None = None, importers: Sequence[Importer] = IMPORTERS) -> Taken:
    """Decide what a file is. `role` narrows it to the importers of one role.

    Raises `InputRefused` when nothing takes it, or when two do alike.
    """
    source = open_source(path, encoding)
    ranked = _ranked(source, [importer for importer in importers if role is None or importer.role == role])
    if not ranked:
        wanted = role or f"{', '.join(ROLES[:-1])} or {ROLES[-1]}"
        raise InputRefused(
            f"{source.name}: it can't be taken as {wanted}: {_why_not(source, role, importers)}. `wattledger inspect "
            f"{path}` shows what is in it and drafts what it would have to look like"
        )
    (found, importer), rest = ranked[0], ranked[1:]
    if rest and rest[0][0].score == found.score and rest[0][1].role != importer.role:
        other = rest[0][1]
        raise InputRefused(
            f"{source.name}: it could be {importer.name} ({importer.role}) or {other.name} ({other.role}): "
            f"say which with --{importer.role} or --{other.role}"
        )
    return Taken(source, importer, found, tuple((other.name, it.score) for it, other in rest))


def _ranked(source: Source, importers: Sequence[Importer]) -> list[tuple[Detection, Importer]]:
    """Those that take a file, the surest first."""
    found = ((importer.detect(source), importer) for importer in importers)
    return sorted(((how, importer) for how, importer in found if how is not None), key=lambda item: -item[0].score)


def _why_not(source: Source, role: str | None, importers: Sequence[Importer]) -> str:
    """What the file is instead, or what it lacks."""
    others = _ranked(source, importers) if role else []
    if others:
        other = others[0][1]
        return f"it is {other.name}: name it with --{other.role}, or without a role"
    return near_miss(source) or "no format that is known has its columns"
