"""What is installed: devices, their MIG instances and how they are read. Values only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A GPU instance that exists. `uuid` is of its first compute instance (what jobs are handed); `generation` counts
    how often an instance of this id was made since the probe first saw the device."""

    gpu_instance: str
    uuid: str
    profile: str
    slices: int
    memory_bytes: int | None = None
    generation: int = 0
    compute_uuids: tuple[str, ...] = ()
    minors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """One device as one process may hold it: an NVIDIA card, an AMD card or one partition of it.

    `device` is its identity: the UUID (NVIDIA) or `domain:bus:device.function` with `/partition` (AMD). Index, minor
    and PCI address are attributes that may change at a boot. `counter_epoch` names the run of the energy counter
    (boot, driver load, reset). `sharing`: exclusive, mig, time_sliced or mps.
    """

    device: str
    vendor: str
    gpu_model: str
    driver: str
    index: int = -1
    minor: int = -1
    pci: str = ""
    socket: str = ""
    slices: int = 7
    sharing: str = "exclusive"
    instances: tuple[MigInstance, ...] = ()
    counter_epoch: str = ""
    counter_scope: str = ""
    power_field: str = ""
    power_window_us: int | None = None
    power_refresh_us: int | None = None
    power_limit_mw: int | None = None
    memory_bytes: int | None = None
    is_mig: bool = False

    @property
    def mig_layout(self) -> str:
        """Profiles present, largest first, e.g. `3g+2g+1g+1g`; empty: MIG off or no instance."""
        sizes = sorted((instance.slices for instance in self.instances), reverse=True)
        return "+".join(f"{size}g" for size in sizes)


@dataclass(frozen=True, slots=True)
class Inventory:
    """What one probe found. `notes` are sentences for people: what is odd here and what to do about it."""

    devices: tuple[Device, ...] = ()
    notes: tuple[str, ...] = ()
    library: str = ""
    """Vendor library with version, e.g. `nvml 590.48.01 (nvidia-ml-py 13.615.71)`."""
