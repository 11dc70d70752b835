"""What the producer has in hand: which records are complete, how many messages are not yet reported."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Sent:
    """One attempt at one record; `left` messages (one a partition) are not reported. `alone`: nothing else was sent
    with it, so that a refusal is about this record."""

    seq: int
    topic: str
    left: int
    alone: bool
    size_bytes: int = 0
    failed: bool = False


@dataclass(slots=True)
class InFlight:
    """Attempts under way. A report of an earlier attempt never counts for a later one: it holds its own Sent."""

    records: int = 0
    messages: int = 0
    size_bytes: int = 0
    failed: bool = False
    _delivered: list[int] = field(default_factory=list)

    def begin(self, sent: Sent) -> None:
        self.records += 1
        self.messages += sent.left
        self.size_bytes += sent.size_bytes

    def end_message(self, sent: Sent, ok: bool) -> None:
        """One message was reported; the record is delivered when all of its messages are."""
        self.messages -= 1
        sent.left -= 1
        sent.failed = sent.failed or not ok
        if sent.left == 0:
            self.records -= 1
            self.size_bytes -= sent.size_bytes
            if not sent.failed:
                self._delivered.append(sent.seq)

    def abandon(self, sent: Sent, messages: int) -> None:
        """The last `messages` of an attempt were never handed over."""
        for _ in range(messages):
            self.end_message(sent, ok=False)

    def take_delivered(self) -> list[int]:
        """Records complete since the last call."""
        taken, self._delivered = self._delivered, []
        return taken

    def put_back(self, seqs: list[int]) -> None:
        """They could not be deleted; they come again with the next call."""
        self._delivered = seqs + self._delivered
