"""The shape of an importer: how a format is recognised by content, and how its records are read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import Record
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.source import Source


class Detection(NamedTuple):
    """How sure, from 1 (could be) to 100 (nothing else has this), and why in words that a user understands."""

    score: int
    why: str


@dataclass(frozen=True, slots=True)
class Importer:
    """One format. `detect` looks at the source's head only and never raises for a file of another format.

    `read` streams records in file order. It raises `InputRefused` for a file that can't be read as asked, and puts
    every line that it does not use into the rejections: lines in = records out + rejections.
    """

    name: str
    role: str
    detect: Callable[[Source], Detection | None]
    read: Callable[[Source, ReadOptions, Rejections], Iterator[Record]]
