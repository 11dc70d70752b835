"""Records that no processor can use, each kind with the reason code that its dead letter must carry."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tests.fault_harness import record_bytes as wire
from tests.fault_harness import records
from tests.fault_harness.facts import Batch
from tests.fault_harness.plan import S

_YEAR_US = 365 * 86_400 * S


class Poison(NamedTuple):
    """One kind: where it goes, its bytes made from a good record, and why it is put aside."""

    name: str
    topic: str
    reason: str
    spoil: Callable[[Batch, int], bytes]


def _negative(batch: Batch, period_us: int) -> bytes:
    first = batch.readings[0]
    spoilt = replace(first, power_mw=(-5, *first.power_mw[1:]))
    return _encoded(replace(batch, readings=(spoilt, *batch.readings[1:])), period_us)


def _far_ahead(batch: Batch, period_us: int) -> bytes:
    return _encoded(replace(batch, ticks_us=tuple(tick + _YEAR_US for tick in batch.ticks_us)), period_us)


def _backwards(batch: Batch, period_us: int) -> bytes:
    return _encoded(replace(batch, ticks_us=batch.ticks_us[::-1]), period_us)


def _encoded(batch: Batch, period_us: int) -> bytes:
    return wire.encode("sample_batch", records.sample_batch(batch, period_us))


POISONS = (
    Poison("garbage", "gpu-samples", "bad_magic", lambda batch, _: b"\xffgarbage" + batch.node.encode()),
    Poison("short", "gpu-samples", "too_short", lambda *_: b"\0\0"),
    Poison("wrong-id", "gpu-samples", "unknown_schema_id", lambda b, p: wire.header(77) + _encoded(b, p)[5:]),
    Poison("cut", "gpu-samples", "undecodable", lambda b, p: _encoded(b, p)[:60]),
    Poison("wrong-subject", "gpu-samples", "wrong_subject", lambda b, _: wire.encode("tick", records.tick(b.end_us))),
    Poison("negative", "gpu-samples", "negative_reading", _negative),
    Poison("backwards", "gpu-samples", "bad_ticks", _backwards),
    Poison("far-ahead", "gpu-samples", "too_far_ahead", _far_ahead),
    Poison("job-garbage", "job-events", "bad_magic", lambda batch, _: b"\xfe" + batch.node.encode()),
    Poison("job-wrong-subject", "job-events", "wrong_subject", _encoded),
    Poison("price-garbage", "price-book", "bad_magic", lambda batch, _: b"\xfd" + batch.node.encode()),
)
