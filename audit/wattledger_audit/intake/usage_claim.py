"""What one row of a usage table holds: how many devices, which part of each, where. Exact fractions only."""

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import NamedTuple

from wattledger_audit.intake.device_name import parse_device
from wattledger_audit.intake.mig_profile import mig_share
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.slurm_hostlist import BadHostlist, expand_hostlist
from wattledger_audit.intake.usage_words import UNSAID
from wattledger_audit.intake.visible_devices import visible_devices

MOST_PARTS = 1_000_000
"""A share finer than a millionth is no share that a scheduler gives."""
_SEPARATORS = re.compile(r"[;,\s]+")
_RATIO = re.compile(r"(\d+)\s*/\s*(\d+)")
_PLAIN = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d{1,3})?")
_GROUPED = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")
_GPU_WORD = re.compile(
    r"(?:(?:nvidia|amd|tesla|instinct)[ _-]+)*(?:[ap]100|v100s?|a[1-9]0g?|a800|a[2456]000|[gb]?h[128]00|h20|g?b[123]00|"
    r"t4g?|p4|l20|l40?s?|mi\d{2,3}[axm]?|rtx[ _-].*|quadro[ _-].*|geforce.*|gtx[ _-].*|gaudi\d?)(?![a-z0-9])",
    re.IGNORECASE,
)


_COUNT_FIRST = re.compile(r"(?P<gpus>[1-9]\d?)\s*[x×*]\s*(?P<model>\S.*)", re.IGNORECASE)
_COUNT_LAST = re.compile(r"(?P<model>\S.*?)(?:\s*:\s*|\s*[×*]\s*|\s+x\s*)(?P<gpus>[1-9]\d?)", re.IGNORECASE)


MOST_GPUS_A_NODE = 1024
_MOST_GPUS = 1_000_000


def most_gpus(nodes: int) -> int:
    """More than any machine has, times the machines; more than any fleet has where none is named."""
    return MOST_GPUS_A_NODE * nodes or _MOST_GPUS


class ClaimCells(NamedTuple):
    """The cells of a row that say what it holds, as written."""

    node: str
    device: str
    gpu_model: str
    gpus: str
    share_num: str
    share_den: str
    share: str
    profile: str
    sku: str
    visible: str = ""


class UsageClaim(NamedTuple):
    """`gpus` counts devices over all nodes (None: unknown); `share_num/share_den` is the part of each."""

    nodes: tuple[str, ...]
    device: str
    gpus: int | None
    share_num: int
    share_den: int
    marks: tuple[str, ...]
    gpu_model: str = ""


def with_counted_model(cells: ClaimCells) -> ClaimCells:
    """The cells with what one of them says of two things told apart: a model where a device's name belongs, and a
    count beside the model (`8x H100`, `H100:8`)."""
    if not cells.gpu_model and (names_a_gpu(cells.device) or _counted(cells.device)):
        cells = cells._replace(gpu_model=cells.device, device="")
    counted = _counted(cells.gpu_model)
    if counted is None:
        return cells
    gpus = str(counted[1]) if cells.gpus.lower() in UNSAID else cells.gpus
    return cells._replace(gpu_model=counted[0], gpus=gpus)


def _counted(text: str) -> tuple[str, int] | None:
    """The model and the number of GPUs of `8x H100` or `H100:8`; None: no count stands beside a model."""
    found = _COUNT_FIRST.fullmatch(text) or _COUNT_LAST.fullmatch(text)
    if found is None or not names_a_gpu(found["model"]):
        return None
    return found["model"], int(found["gpus"])


def read_claim(cells: ClaimCells) -> UsageClaim:
    """Raises RowRefused with the column's meaning as its column."""
    nodes = read_nodes(cells.node)
    marks: list[str] = []
    if cells.visible.lower() not in UNSAID and cells.device.lower() in UNSAID:
        cells = _with_visible(cells, nodes)
    share = _said_share(cells)
    devices = [] if cells.device.lower() in UNSAID else [d for d in _SEPARATORS.split(cells.device) if d]
    if share is None:
        share = _implied_share(cells, devices, marks)
    gpus = _gpus(cells.gpus)
    if gpus is not None and gpus.denominator > 1:
        gpus, share = _whole_devices(cells.gpus, gpus, share, marks)
    count = _device_count(devices, nodes)
    if gpus is None and count:
        gpus = Fraction(count)
    elif count and gpus is not None and gpus != count:
        marks.append("gpus_disagree")
    if gpus is None:
        marks.append("gpus_unknown")
    one = parse_device(devices[0]).device if len(devices) == 1 and gpus == 1 else ""
    if len(devices) > 1:
        marks.append("several_devices")
    whole = None if gpus is None else int(gpus)
    if gpus is not None and gpus * share > most_gpus(len(nodes)):
        raise RowRefused("gpus", cells.gpus, "too_many_gpus: no machine has so many; is it another column's value?")
    return UsageClaim(nodes, one, whole, share.numerator, share.denominator, tuple(marks), cells.gpu_model)


def _with_visible(cells: ClaimCells, nodes: tuple[str, ...]) -> ClaimCells:
    """The devices, or else the count, that the job's environment shows: the same indexes on each of its nodes."""
    devices, count = visible_devices(cells.visible)
    if count is None or devices:
        return cells._replace(device=devices)
    return cells if cells.gpus.lower() not in UNSAID else cells._replace(gpus=str(count * max(1, len(nodes))))


def read_nodes(text: str) -> tuple[str, ...]:
    """Names of a cell that holds one node, a list (`a,b`, `a;b`, `a b`) or a host list (`n[01-04,07]`)."""
    if text.isalnum() or not text:
        return (text,) if text.lower() not in UNSAID else ()
    if text.lower() in UNSAID:
        return ()
    try:
        parts = [text] if "[" in text else [part for part in _SEPARATORS.split(text) if part]
        names = [name for part in parts for name in _names_of(part)]
    except BadHostlist as error:
        raise RowRefused("node", text, f"bad_node: {error}; write names, or a host list such as n[01-04]") from error
    return tuple(dict.fromkeys(names))


def _names_of(part: str) -> list[str]:
    lists = re.split(r"[;\s]+(?![^\[]*\])", part.strip())
    return [name for each in lists if each.strip(",") for name in expand_hostlist(each.strip(","))]


def _device_count(devices: list[str], nodes: tuple[str, ...]) -> int:
    """Indexes count on every node; UUIDs are the same device wherever the row says it is."""
    if devices and all(device.isdecimal() for device in devices):
        return len(devices) * max(1, len(nodes))
    return len(devices)


def _gpus(text: str) -> Fraction | None:
    if text.lower() in UNSAID:
        return None
    value = _exact("gpus", text, "bad_gpus")
    if value < 0:
        raise RowRefused("gpus", text, "negative_gpus: a job can't hold less than nothing; correct the count")
    return value


def _whole_devices(text: str, gpus: Fraction, share: Fraction, marks: list[str]) -> tuple[Fraction, Fraction]:
    """`0.5` GPUs is a half of one device, `1.5` is three halves; a share that says the same again counts once."""
    if share not in (1, gpus):
        raise RowRefused("gpus", text, f"share_disagrees: the row also says a share of {share}; leave one of them out")
    marks.append("gpus_fractional")
    return (Fraction(1), gpus) if gpus < 1 else (Fraction(gpus.numerator), Fraction(1, gpus.denominator))


def _said_share(cells: ClaimCells) -> Fraction | None:
    """The share of the share columns; None: they are empty."""
    num, den = cells.share_num, cells.share_den
    if num.lower() in UNSAID and den.lower() in UNSAID:
        return None if cells.share.lower() in UNSAID else _share_text("share", cells.share, cells.gpu_model)
    if den.lower() in UNSAID:
        return _share_text("share_num", num, cells.gpu_model)
    if not (num.isdecimal() and den.isdecimal()) or int(den) == 0:
        raise RowRefused("share_num", f"{num}/{den}", "bad_share: share_num and share_den are whole, the latter from 1")
    return _checked("share_num", f"{num}/{den}", Fraction(int(num), int(den)))


def _share_text(column: str, text: str, gpu_model: str) -> Fraction:
    """`1/4`, `25%`, `0.25`, `0,25` or a MIG profile."""
    if profile := mig_share(text, gpu_model):
        return Fraction(profile.slices, profile.of)
    if ratio := _RATIO.fullmatch(text):
        if int(ratio[2]) == 0:
            raise RowRefused(column, text, "bad_share: a share can't have 0 parts")
        return _checked(column, text, Fraction(int(ratio[1]), int(ratio[2])))
    if text.endswith("%"):
        return _checked(column, text, _exact(column, text[:-1].rstrip(), "bad_share") / 100)
    return _checked(column, text, _exact(column, text, "bad_share"))


def _implied_share(cells: ClaimCells, devices: list[str], marks: list[str]) -> Fraction:
    """The share that a profile, the model's or the SKU's name or the device's name tells; whole otherwise."""
    for text in (cells.profile, cells.gpu_model, cells.sku):
        if profile := mig_share(text, cells.gpu_model):
            marks.append("share_from_profile")
            return Fraction(profile.slices, profile.of)
    names = [parse_device(device) for device in devices]
    if any(name.instance or name.replica for name in names):
        marks.append("share_unknown")
    return Fraction(1)


def _checked(column: str, text: str, share: Fraction) -> Fraction:
    if share > 1:
        raise RowRefused(column, text, "share_over_one: a share is at most the whole device (1, 100 %, 1/1)")
    if share <= 0 or share.denominator > MOST_PARTS:
        raise RowRefused(column, text, "bad_share: a share is more than 0, in parts of at most a millionth")
    return share


def _exact(column: str, text: str, code: str) -> Fraction:
    """A plain decimal number as the exact fraction that it is."""
    if not _PLAIN.fullmatch(text):
        raise RowRefused(column, text, f"{code}: not a number; write it as 2 or 0.25")
    try:
        value = Fraction(Decimal(text.replace(",", ".")))
    except InvalidOperation as error:
        raise RowRefused(column, text, f"{code}: not a number; write it as 2 or 0.25") from error
    if value.denominator > MOST_PARTS:
        raise RowRefused(column, text, f"{code}: finer than a millionth of a device; write the share as a ratio (1/7)")
    return value


def is_ambiguous_count(text: str) -> bool:
    """`1.000`, `8,000`: a few with decimals, or thousands; only the rest of the file can tell."""
    return _GROUPED.fullmatch(text) is not None


def names_a_gpu(text: str) -> bool:
    """Whether a text is a GPU's product name rather than a machine-learning model's."""
    return _GPU_WORD.match(text.strip()) is not None
