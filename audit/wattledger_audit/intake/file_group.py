"""Formats whose files are parts of one whole, and how they are read together: one file a metric, one file a window."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from wattledger_audit.intake import usage_kube_state, usage_opencost
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import UsageRun
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.source import Source

ReadTogether = Callable[[Sequence[Source], ReadOptions, Rejections], Iterator[tuple[int, UsageRun]]]
"""Runs with the number of the file that each stands in."""

GROUPS: Mapping[str, ReadTogether] = {
    importer.name: module.read_together
    for module in (usage_kube_state, usage_opencost)
    for importer in module.IMPORTERS
}
"""By the importer's name."""
