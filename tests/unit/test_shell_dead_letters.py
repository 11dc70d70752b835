"""Bad records: put aside with where they came from and their bytes; a stream that is mostly bad stops the worker."""

from collections.abc import Mapping

import pytest
from wattledger_schemas import BadRecord, Codec, partition_for
from wattledger_streams.dead_letter import DeadLetters, TooManyDeadLetters
from wattledger_streams.outbox import Outbox
from wattledger_streams.settings import WorkerSettings

BAD = BadRecord("unknown_schema", "schema id 77")


class KeptOutbox(Outbox):
    """Keeps what is sent; there is no broker."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int, str, bytes]] = []

    def send(
        self, topic: str, partition: int, key: str, value: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        self.sent.append((topic, partition, key, value))


def dead_letters(outbox: Outbox, min_records: int = 10, ratio: float = 0.5) -> DeadLetters:
    settings = WorkerSettings(topic_prefix="x.", dead_letter_min_records=min_records, dead_letter_ratio_limit=ratio)
    return DeadLetters("meter", settings, Codec(), outbox, 4)


def put_aside(dead: DeadLetters, offset: int) -> None:
    dead.put_aside("x.gpu-samples", 3, offset, b"node", b"\x00raw\xff", BAD)


def test_a_dead_letter_says_whence_and_why_and_keeps_the_bytes() -> None:
    outbox = KeptOutbox()
    put_aside(dead_letters(outbox), 41)
    [(topic, partition, key, value)] = outbox.sent
    decoded = Codec().decode(value)
    assert (topic, partition, key) == ("x.dead-letters", partition_for("gpu-samples", 4), "gpu-samples")
    assert decoded.subject == "dead_letter"
    expected = {
        "source_topic": "gpu-samples",
        "source_partition": 3,
        "source_offset": 41,
        "reason_code": "unknown_schema",
        "detail": "schema id 77",
        "processor": "meter",
        "key": b"node",
        "raw": b"\x00raw\xff",
    }
    assert {name: decoded.record[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("good", "bad_before_it_stops"),
    [
        (0, 10),  # below ten records nothing is said of the share
        (9, 10),  # 10 of 19 is the first above a half
        (20, 21),
    ],
)
def test_more_bad_than_the_limit_stops_the_processor(good: int, bad_before_it_stops: int) -> None:
    outbox = KeptOutbox()
    dead = dead_letters(outbox)
    for _ in range(good):
        dead.count_good()
    for offset in range(bad_before_it_stops - 1):
        put_aside(dead, offset)
    with pytest.raises(
        TooManyDeadLetters, match=f"{bad_before_it_stops} of {good + bad_before_it_stops}.*unknown_schema"
    ):
        put_aside(dead, bad_before_it_stops - 1)
    assert len(outbox.sent) == bad_before_it_stops


def test_a_few_bad_records_among_many_good_ones_stop_nothing() -> None:
    dead = dead_letters(KeptOutbox(), ratio=0.1)
    for _ in range(1000):
        dead.count_good()
    for offset in range(100):
        put_aside(dead, offset)


@pytest.mark.parametrize(
    ("key_bytes", "raw_bytes", "kept"),
    [
        (4, 7_000_000, (4, 7_000_000)),
        (4, 7_999_000, (4, 7_899_996)),
        (6_000_000, 1_000, (3_950_000, 1_000)),
        (6_000_000, 6_000_000, (3_950_000, 3_950_000)),
    ],
)
def test_a_record_too_large_for_a_letter_is_cut_and_the_letter_says_so(
    key_bytes: int, raw_bytes: int, kept: tuple[int, int]
) -> None:
    outbox = KeptOutbox()
    dead = dead_letters(outbox)
    dead.put_aside("x.gpu-samples", 3, 7, b"k" * key_bytes, b"r" * raw_bytes, BadRecord("bad_magic", "d" * 9000))
    [(_, _, _, value)] = outbox.sent
    record = Codec().decode(value).record
    assert (len(record["key"]), len(record["raw"])) == kept
    assert len(value) < 8_000_000
    said = f"(cut to fit: the key has {key_bytes} bytes, the value {raw_bytes})"
    assert (said in record["detail"]) == (kept != (key_bytes, raw_bytes))
    assert record["detail"].startswith("d" * 4000)
    assert len(record["detail"]) < 4100
