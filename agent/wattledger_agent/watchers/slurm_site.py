"""What a site says about itself, as the parsers need it: which node this is, whose jobs count, who may tag."""

import re
from collections.abc import Sequence

from wattledger_agent.watchers.slurm_device import GresNumbers
from wattledger_agent.watchers.slurm_time import Stamps

_TAG = re.compile(r"wattledger\.(tenant|model)=([^;,\s\"']{1,128})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class SlurmSite:
    """`node` and `aliases` are this machine's names in SLURM. `cluster`: whose jobs count; empty: any, and each job's
    cluster is what its source says. `gres_index`: see GresNumbers. `zone`: of local times in exports, empty refuses
    them. `comment_tags`: whether a job's comment may say who pays; `tag_uids` limits that to some users."""

    def __init__(
        self,
        node: str,
        aliases: Sequence[str] = (),
        cluster: str = "",
        gres_index: str | Sequence[str] = "minor",
        zone: str = "",
        comment_tags: bool = False,
        tag_uids: frozenset[int] | None = None,
    ) -> None:
        if not node:
            raise ValueError("the SLURM watcher needs the node's name as SLURM has it (scontrol show hostnames)")
        self.names = frozenset(name.lower() for name in (node, *aliases) if name)
        self.cluster = cluster
        self.numbers = GresNumbers(gres_index)
        self.stamps = Stamps(zone)
        self._comment_tags = comment_tags
        self._tag_uids = tag_uids

    def is_here(self, node: str) -> bool:
        """Whether a node's name is one of this machine's, with or without its domain."""
        name = node.lower()
        return name in self.names or name.partition(".")[0] in {own.partition(".")[0] for own in self.names}

    def is_ours(self, cluster: str) -> bool:
        """Whether jobs of a cluster count. A source that names none speaks of ours."""
        return not cluster or not self.cluster or cluster.lower() == self.cluster.lower()

    def tags(self, uid: int | None, *texts: str) -> tuple[str, str]:
        """Tenant and model in comments such as `wattledger.tenant=acme;wattledger.model=llama`, the first of each;
        empty where none, or where this user may not tag."""
        if not self._comment_tags or (self._tag_uids is not None and uid not in self._tag_uids):
            return "", ""
        found: dict[str, str] = {}
        for text in texts:
            for name, value in _TAG.findall(text):
                found.setdefault(name, value)
        return found.get("tenant", ""), found.get("model", "")


def one_line(text: str, most: int = 256) -> str:
    """A text without control characters, cut: what may stand in a record or a message."""
    return _CONTROL.sub(" ", text)[:most].strip()
