"""What a device was while nobody held it: one table, in order of precedence."""

from collections.abc import Sequence
from typing import Any

import pytest
from wattledger_core.capacity import unheld_state
from wattledger_core.hold import Hold
from wattledger_core.line import IDLE, RESERVED, STRANDED, UNAVAILABLE
from wattledger_core.revision import NodeRevision

from tests.builders import DEVICE, S, allocation, fact

GIB = 1 << 30


def state(name: str) -> NodeRevision:
    return fact("state", 0, None, offset=1, known_s=0, state=name)


def reserved(tenant: str, *devices: str) -> NodeRevision:
    return fact(
        "reservation", 0, None, offset=2, known_s=0, reservation_id="r1", tenant=tenant, reserved_devices=devices
    )


def job(name: str = "j", zombie: bool = False, **changes: Any) -> Hold:
    return Hold(0, S, allocation(name, 0, 1, offset=3, known_s=0, device="GPU-1", **changes), zombie)


ALONE = job(exclusive=True)


@pytest.mark.parametrize(
    ("states", "reservations", "holds", "expected"),
    [
        ([], [], [], ("free", "", IDLE)),
        ([state("active")], [], [], ("free", "", IDLE)),
        ([state("failed"), state("maintenance")], [], [], ("unavailable", "failed", UNAVAILABLE)),
        ([state("maintenance"), state("failed")], [], [], ("unavailable", "failed", UNAVAILABLE)),
        ([state("maintenance"), state("burn_in")], [], [], ("unavailable", "burn_in", UNAVAILABLE)),
        ([state("spare")], [], [], ("unavailable", "spare", UNAVAILABLE)),
        # out of service beats a reservation: nobody could have used it
        ([state("draining")], [reserved("zeta")], [ALONE], ("unavailable", "draining", UNAVAILABLE)),
        ([], [reserved("zeta")], [], ("reserved_unused", "r1", "zeta")),
        ([], [reserved("")], [], ("reserved_unused", "r1", RESERVED)),
        ([], [reserved("zeta", DEVICE)], [], ("reserved_unused", "r1", "zeta")),
        ([], [reserved("zeta", "GPU-7")], [], ("free", "", IDLE)),
        # a reservation beats being stranded
        ([], [reserved("zeta")], [ALONE], ("reserved_unused", "r1", "zeta")),
        ([], [], [ALONE], ("stranded", "exclusive", "tenant-j")),
        # after the stop request the exclusive job's devices are the provider's again
        ([], [], [job(exclusive=True, zombie=True)], ("free", "", IDLE)),
        ([], [], [job(cpus=64)], ("stranded", "cpu", STRANDED)),
        ([], [], [job("a", cpus=40), job("b", cpus=24)], ("stranded", "cpu", STRANDED)),
        ([], [], [job("a", cpus=40), job("b", cpus=23)], ("free", "", IDLE)),
        ([], [], [job(cpus=None)], ("free", "", IDLE)),
        ([], [], [job(cpus=8, memory_bytes=512 * GIB)], ("stranded", "memory", STRANDED)),
        ([], [], [job(cpus=64, memory_bytes=512 * GIB)], ("stranded", "cpu", STRANDED)),
        ([], [], [job(cpus=64, exclusive=True)], ("stranded", "exclusive", "tenant-j")),
    ],
)
def test_an_unheld_device_is_in_the_first_state_that_applies(
    states: Sequence[NodeRevision],
    reservations: Sequence[NodeRevision],
    holds: Sequence[Hold],
    expected: tuple[str, str, str],
) -> None:
    found = unheld_state(DEVICE, states, reservations, holds, 64, 512 * GIB)
    assert (found.state, found.reason, found.tenant) == expected


def test_a_node_of_unknown_size_is_never_exhausted() -> None:
    assert unheld_state(DEVICE, [], [], [job(cpus=10**6, memory_bytes=10**15)], None, None).state == "free"


def test_a_reservation_is_charged_on_the_reserved_plan_and_stranding_names_its_job() -> None:
    assert unheld_state(DEVICE, [], [reserved("zeta")], [], 64, None).plan == "reserved"
    found = unheld_state(DEVICE, [], [], [ALONE], 64, None)
    assert (found.plan, found.exclusive) == ("on_demand", ALONE)
