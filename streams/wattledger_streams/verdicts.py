"""Sample records that went to dead letters: a verdict once given stands, whoever reads the record again."""

from wattledger_schemas import BadRecord, Codec

from wattledger_streams.log_reader import LogReader
from wattledger_streams.settings import WorkerSettings


class DeadSamples:
    """(partition, offset) of the `gpu-samples` records in `dead-letters`, as of the last `refresh`."""

    def __init__(self, settings: WorkerSettings, codec: Codec, partitions: int) -> None:
        self._codec = codec
        self._found: set[tuple[int, int]] = set()
        self._readers = [
            LogReader(settings.kafka(), settings.topic("dead-letters"), partition, "wattledger-verdicts")
            for partition in range(partitions)
        ]

    def __contains__(self, place: tuple[int, int]) -> bool:
        return place in self._found

    def add(self, partition: int, offset: int) -> None:
        """A verdict of this worker."""
        self._found.add((partition, offset))

    def refresh(self) -> None:
        """Read on to the end of now: another worker may have given a verdict on what comes here next."""
        for reader in self._readers:
            for letter in reader.read_until(reader.end_offset()):
                try:
                    record = self._codec.decode(letter.value).record
                except BadRecord:
                    continue
                if record.get("source_topic") == "gpu-samples":
                    self._found.add((int(record["source_partition"]), int(record["source_offset"])))
