"""The fleet that a cost file lists: host lists expanded, each machine in one state at a time."""

from wattledger_core.interval import overlap
from wattledger_streams.tariff_file_text import Place

from wattledger_audit.assessment.cost_file_form import FleetEntry
from wattledger_audit.assessment.cost_reading import CostReading, Span
from wattledger_audit.intake.record import FleetNode
from wattledger_audit.intake.slurm_hostlist import BadHostlist, expand_hostlist

_ADVICE = 'write one name, or a host list such as "gpu[01-16,20]"'


def fleet_of(reading: CostReading) -> tuple[FleetNode, ...]:
    """Machines that are in the fleet in the period, in the order of the file."""
    found: list[FleetNode] = []
    known: dict[tuple[str, str], list[tuple[Span, Place]]] = {}
    for number, entry in enumerate(reading.form.fleet):
        place: Place = ("fleet", number)
        span = reading.span(place, entry.start, entry.end, reading.site_zone(entry.site))
        for node in _nodes(reading, place, entry):
            others = known.setdefault((entry.cluster, node), [])
            for other, other_place in others:
                if overlap(*span.bounds, *other.bounds) is not None:
                    raise reading.tree.error(
                        (*place, "node"),
                        f"{node} is in the fleet at this time on line {reading.tree.line(other_place)} already: "
                        "give each its from and to, or remove one",
                    )
            others.append((span, place))
            if reading.touches(span):
                found.append(_fleet_node(reading.tree.line(place), node, span, entry))
    return tuple(found)


def _nodes(reading: CostReading, place: Place, entry: FleetEntry) -> list[str]:
    nodes: list[str] = []
    for text in entry.node:
        try:
            names = expand_hostlist(text)
        except BadHostlist as error:
            raise reading.tree.error((*place, "node"), f"{error}: {_ADVICE}") from error
        if not names:
            raise reading.tree.error((*place, "node"), f"{text!r} names no host: {_ADVICE}")
        nodes += names
    return nodes


def _fleet_node(line: int, node: str, span: Span, entry: FleetEntry) -> FleetNode:
    return FleetNode(
        line=line,
        node=node,
        cluster=entry.cluster,
        site=entry.site,
        gpu_model=entry.gpu_model,
        gpus=entry.gpus,
        slices=entry.slices,
        start_us=span.start_us,
        end_us=span.end_us,
        status=entry.status,
        cpus=entry.cpus,
        memory_bytes=entry.mem,
        partitions=entry.partitions,
        devices=(),
    )
