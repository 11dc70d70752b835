"""Which agent this is: an id kept in the state folder, and given up when the folder turns out to be on another host.

A cloned disk would otherwise make two agents with one id. What the log holds stays: it is still true.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from uuid import uuid4

import structlog

log = structlog.get_logger()
FILE_NAME = "identity.json"
_NO_PRODUCT = {
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "03000200-0400-0500-0006-000700080009",
    "12345678-1234-5678-90ab-cddeefaabbcc",
}
"""UUIDs that board makers leave in many machines: they tell nothing."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells one host from another; empty: not known. `machine_id` is the operating system's, `product_uuid` the
    board's or the virtual machine's, `boot_id` of this run of the kernel, `gpus` UUIDs of the cards."""

    machine_id: str = ""
    product_uuid: str = ""
    boot_id: str = ""
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """An agent's id and the host that it was last seen on."""

    agent_id: str
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class Settled:
    """The identity to use from now on. `note`: a sentence for people when it is not the one that was stored.
    `is_new_host`: the state folder comes from another host, so that what it remembers of devices is not of these."""

    identity: Identity
    note: str = ""
    is_new_host: bool = False


def settle(stored: Identity | None, found: Fingerprint, new_id: str) -> Settled:
    """Decide who this is. What is unknown on either side is no evidence; a changed boot alone is a reboot.

    A board that was replaced gives a new id too: one id too many is harmless, two agents with one id are not.
    """
    if stored is None:
        return Settled(Identity(new_id, found))
    moved = _difference(stored.fingerprint, found)
    if moved:
        note = (
            f"the state folder of agent {stored.agent_id} is on another host ({moved}): a cloned disk or a replaced "
            f"machine. This agent is {new_id} from now on; records in its log are still delivered"
        )
        return Settled(Identity(new_id, found), note, is_new_host=True)
    return Settled(Identity(stored.agent_id, _merged(stored.fingerprint, found)))


def _difference(before: Fingerprint, now: Fingerprint) -> str:
    """What shows that it is another host; empty when nothing does."""
    if _product(before) and _product(now) and _product(before) != _product(now):
        return f"product UUID {now.product_uuid}, was {before.product_uuid}"
    if before.gpus and now.gpus and not set(before.gpus) & set(now.gpus):
        return f"none of its GPUs is here: {before.gpus[0]} and {len(before.gpus) - 1} more, now {now.gpus[0]}"
    if before.boot_id and before.boot_id == now.boot_id:
        # the same kernel: a container may bring a machine id of its own
        return ""
    if before.machine_id and now.machine_id and before.machine_id != now.machine_id:
        return f"machine id {now.machine_id}, was {before.machine_id}"
    return ""


def _product(fingerprint: Fingerprint) -> str:
    uuid = fingerprint.product_uuid.lower()
    return "" if uuid in _NO_PRODUCT else uuid


def _merged(before: Fingerprint, now: Fingerprint) -> Fingerprint:
    """What is known now, and what was known before where it can't be read now."""
    known = {name: value for name, value in asdict(now).items() if value}
    return replace(before, **known)


def read_fingerprint(gpus: tuple[str, ...] = (), root: Path = Path("/")) -> Fingerprint:
    """The host as it is now; `gpus` come from the probes. The product UUID is readable by root alone on most hosts."""
    machine = _text(root / "etc/machine-id") or _text(root / "var/lib/dbus/machine-id")
    product = _text(root / "sys/class/dmi/id/product_uuid")
    return Fingerprint(machine, product, _text(root / "proc/sys/kernel/random/boot_id"), tuple(sorted(gpus)))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def settle_identity(folder: Path, found: Fingerprint, new_id: Callable[[], str] = lambda: uuid4().hex) -> Settled:
    """Settle with what the state folder remembers, and remember the outcome there, durably.

    A file that can't be read as an identity is kept beside and gives a new id. Raises OSError when the folder can't be
    read or written.
    """
    path = folder / FILE_NAME
    stored, damage = _load(path)
    settled = settle(stored, found, new_id())
    if damage:
        kept = path.with_name(f"{FILE_NAME}.damaged")
        path.replace(kept)
        settled = replace(settled, note=f"{path} {damage}: kept as {kept}; this agent is {settled.identity.agent_id}")
    if settled.note:
        log.warning("agent_identity", note=settled.note)
    if settled.identity != stored:
        _save(path, settled.identity)
    return settled


def _load(path: Path) -> tuple[Identity | None, str]:
    """The stored identity, and what is wrong with the file; neither when there is no file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None, ""
    try:
        said = json.loads(content)
        given = said["fingerprint"]
        texts = {name: given.get(name, "") for name in ("machine_id", "product_uuid", "boot_id")}
        gpus = given.get("gpus", [])
        if not said["agent_id"] or not all(isinstance(t, str) for t in (said["agent_id"], *texts.values(), *gpus)):
            return None, "holds no agent id"
        return Identity(said["agent_id"], Fingerprint(**texts, gpus=tuple(gpus))), ""
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return None, f"can't be read as an identity ({type(error).__name__})"


def _save(path: Path, identity: Identity) -> None:
    """The old file or the new one, never a part of it, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        json.dump(asdict(identity), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
