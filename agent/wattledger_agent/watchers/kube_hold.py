"""What the kubelet says its pods hold, as values. Reads nothing, decides nothing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceHold:
    """Devices of one resource, as its device plugin names them."""

    resource: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimHold:
    """One device of a ResourceClaim (dynamic resource allocation), by the driver's names."""

    namespace: str
    claim: str
    driver: str
    pool: str
    device: str
    share_id: str = ""


@dataclass(frozen=True, slots=True)
class ContainerHold:
    """What one container holds. Native sidecars are containers too."""

    name: str
    devices: tuple[DeviceHold, ...] = ()
    claims: tuple[ClaimHold, ...] = ()


@dataclass(frozen=True, slots=True)
class PodHold:
    """A pod that holds devices; `containers` are only those that do. `cpus` and `memory_bytes` are what it has for
    itself alone (CPU and memory manager); None: nothing, so the source does not say."""

    namespace: str
    name: str
    containers: tuple[ContainerHold, ...]
    cpus: int | None = None
    memory_bytes: int | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def holders(self) -> tuple[str, ...]:
        """Names of the containers that hold something."""
        return tuple(container.name for container in self.containers)

    @property
    def things(self) -> frozenset[str]:
        """Everything held, named; tells whether two listings are of one hold."""
        plugged = {f"{d.resource}={one}" for c in self.containers for d in c.devices for one in d.ids}
        claimed = {
            f"{x.namespace}/{x.claim}:{x.driver}/{x.pool}/{x.device}/{x.share_id}"
            for c in self.containers
            for x in c.claims
        }
        return frozenset(plugged | claimed)
