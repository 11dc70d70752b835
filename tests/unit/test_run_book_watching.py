"""Watchers, owners and the run book together, on a fake `/proc`: from a pid on a card to events and findings."""

from dataclasses import replace
from pathlib import Path

from wattledger_agent.probes.reading import DeviceReading, ProcessReading, Reading
from wattledger_agent.process_owner import ProcessOwners
from wattledger_agent.run_book import RunBook
from wattledger_agent.watchers.cgroup import CgroupTree
from wattledger_agent.watchers.container import ContainerWatcher
from wattledger_agent.watchers.process import ProcessWatcher
from wattledger_agent.watchers.process_table import ProcessTable
from wattledger_agent.watchers.run import Sighting

from tests.proc_tree import BOOT_S, HZ, ProcTree
from tests.run_sightings import CARD, CARDS, S, run, sessions

BOOT = BOOT_S * S
CID = "4f" * 32


class Machine:
    """What the coordinator does with these parts, a second a look."""

    def __init__(self, root: Path) -> None:
        self.proc = ProcTree(root / "proc")
        table = ProcessTable(self.proc.root, ticks_per_s=HZ)
        self.seen: list[tuple[str, str, int]] = []
        self.watchers = (
            ProcessWatcher(lambda: self.seen, table, "n1", looked_us=BOOT, name_of=str),
            ContainerWatcher(lambda: self.seen, table, "n1", None, CgroupTree(root / "cg"), BOOT, str),
        )
        self.owners = ProcessOwners(table)
        self.book = RunBook("n1", "boot-1")
        self.events: list[dict[str, object]] = []
        self.findings: list[str] = []

    def look(self, second: int, slurm: Sighting | None = None) -> None:
        now_us = BOOT + second * S
        told = [(watcher.name, watcher.look(now_us)) for watcher in self.watchers]
        told += [("slurm", slurm)] if slurm is not None else []
        for source, sighting in told:
            observed = self.book.observe(source, sighting, CARDS, now_us)
            self.events += observed.events
            self.findings += [finding.reason for finding in observed.findings]
        self.owners.follow(self.book.owners(now_us))
        uses = self.owners.uses([self.reading()], now_us)
        self.findings += [finding.reason for finding in self.book.observe_use(uses, now_us).findings]

    def reading(self) -> DeviceReading:
        on = tuple(ProcessReading(pid, Reading(1000 * pid)) for device, _, pid in self.seen if device == CARD)
        return DeviceReading(CARD, processes=on)

    def said(self) -> list[tuple[object, object, int]]:
        return [(e["kind"], e["source"], (int(str(e["at_us"])) - BOOT) // S) for e in self.events]


def test_a_process_of_nobody_becomes_a_run_and_its_use_is_its_own(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.look(1)
    machine.proc.add(50, 150)
    machine.seen = [(CARD, "", 50)]
    machine.look(2)
    machine.look(3)
    shares = machine.owners.of_device(machine.reading().processes or (), BOOT + 3 * S)
    assert shares == {("n1", "1000/50:150@46a22e07"): Reading(50_000)}
    machine.proc.remove(50)
    machine.seen = []
    machine.look(60)
    assert machine.said() == [("start", "processes", 1), ("end", "processes", 60)]
    assert machine.findings == []
    (allocation,) = sessions(machine.events)
    assert allocation.tenant == "1000"


def test_a_container_and_a_job_of_slurm_on_one_card_disagree(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.proc.add(50, 150, cgroup=f"0::/system.slice/docker-{CID}.scope\n")
    machine.proc.add(60, 150, cgroup="0::/system.slice/slurmstepd.scope/job_1/step_0\n")
    machine.seen = [(CARD, "", 50), (CARD, "", 60)]
    job = replace(run("1", 0), started_us=BOOT + S, owner_keys=("job_1",))
    machine.look(2, Sighting(BOOT + 2 * S, (job,)))
    assert machine.said() == [("start", "containers", 1), ("start", "slurm", 1)]
    assert machine.findings == ["watchers_disagree"]
    shares = machine.owners.of_device(machine.reading().processes or (), BOOT + 3 * S)
    assert shares == {("n1", CID): Reading(50_000), ("c1", "1"): Reading(60_000)}


def test_c10_a_pod_without_a_request_is_no_run_and_raises_the_alarm(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.proc.add(50, 150, cgroup=f"0::/kubepods/pod1f0c8a52-93aa-4c1e-9a3e-0f6c1d2b3a4c/{CID}\n")
    machine.seen = [(CARD, "", 50)]
    machine.look(2)
    machine.look(40)
    assert machine.events == []
    assert machine.findings == ["use_without_allocation"]
    assert machine.owners.of_device(machine.reading().processes or (), BOOT + 40 * S) == {None: Reading(50_000)}


def test_two_users_of_one_card_hold_halves_of_it_while_both_are_there(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.look(1)
    machine.proc.add(50, 150)
    machine.seen = [(CARD, "", 50)]
    machine.look(2)
    machine.proc.add(60, 250, uid=1001)
    machine.seen.append((CARD, "", 60))
    machine.look(3)
    machine.proc.remove(50)
    machine.seen = [(CARD, "", 60)]
    machine.look(4)
    assert machine.findings == []
    found = [(a.tenant, f"{a.share_num}/{a.share_den}", a.start_us - BOOT, a.end_us) for a in sessions(machine.events)]
    assert found == [
        ("1000", "1/1", 1_500_000, BOOT + 3 * S),
        ("1001", "1/2", 2_500_000, BOOT + 4 * S),
        ("1000", "1/2", 3_000_000, BOOT + 4 * S),
        ("1001", "1/1", 4_000_000, None),
    ]
