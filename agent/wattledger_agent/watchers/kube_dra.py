"""Claims and slices of dynamic resource allocation, read from the API server as the kubelet's list names them."""

from collections.abc import Iterable, Mapping

from wattledger_agent.watchers.kube_api import KubeApi
from wattledger_agent.watchers.kube_claim import ClaimFacts, DeviceKey, SliceDevice, parse_claim, parse_slices
from wattledger_agent.watchers.kube_hold import ClaimHold, PodHold

_AGAIN_US = 60_000_000


class ClaimReader:
    """Keeps what is in use, and asks only for what it does not know: an allocation never changes while it is held."""

    def __init__(self, api: KubeApi, node: str, drivers: frozenset[str]) -> None:
        self._api = api
        self._node = node
        self._drivers = drivers
        self._asked_us: dict[tuple[str, str], int] = {}
        self._slices_asked_us: int | None = None
        self.slices: Mapping[DeviceKey, SliceDevice] = {}
        self.claims: dict[tuple[str, str], ClaimFacts | None] = {}

    def read(self, holds: Iterable[PodHold], now_us: int) -> None:
        """Learns the claims and devices that these pods hold. Raises KubeApiError; what is known stays."""
        named = {claim for hold in holds for one in hold.containers for claim in one.claims}
        wanted = {(one.namespace, one.claim) for one in named}
        for gone in self.claims.keys() - wanted:
            del self.claims[gone]
            self._asked_us.pop(gone, None)
        for one in sorted(named, key=lambda claim: (claim.namespace, claim.claim, claim.device)):
            self._read_claim(one, now_us)
        unknown = {(one.driver, one.pool, one.device) for one in named} - self.slices.keys()
        if unknown and (self._slices_asked_us is None or now_us - self._slices_asked_us >= _AGAIN_US):
            self.slices = parse_slices(self._api.slices(self._node), self._drivers)
            self._slices_asked_us = now_us

    def _read_claim(self, claim: ClaimHold, now_us: int) -> None:
        key = (claim.namespace, claim.claim)
        known = self.claims.get(key)
        device = (claim.driver, claim.pool, claim.device)
        if known is not None and any(given == device for given, _ in known.given):
            return
        asked_us = self._asked_us.get(key)
        if asked_us is None or now_us - asked_us >= _AGAIN_US:
            found = self._api.claim(*key)
            self._asked_us[key] = now_us
            self.claims[key] = parse_claim(found) if found is not None else None
