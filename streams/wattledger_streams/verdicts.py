"""Sample records that went to dead letters: a verdict once given stands, whoever reads the record again."""

from wattledger_schemas import BadRecord, Codec

from wattledger_streams.log_reader import LogReader
from wattledger_streams.settings import WorkerSettings


def dead_samples(settings: WorkerSettings, codec: Codec, partitions: int) -> set[tuple[int, int]]:
    """(partition, offset) of the `gpu-samples` records in `dead-letters`, read to its end now."""
    found: set[tuple[int, int]] = set()
    for partition in range(partitions):
        reader = LogReader(settings.kafka(), settings.topic("dead-letters"), partition, "wattledger-verdicts")
        try:
            for letter in reader.read_until(reader.end_offset()):
                try:
                    record = codec.decode(letter.value).record
                except BadRecord:
                    continue
                if record["source_topic"] == "gpu-samples":
                    found.add((int(record["source_partition"]), int(record["source_offset"])))
        finally:
            reader.close()
    return found
