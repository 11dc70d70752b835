"""How fast a backlog may go to the broker: a token bucket, and a start of its own for each agent. No clock."""

from dataclasses import dataclass
from zlib import crc32

_US = 1_000_000


@dataclass(frozen=True, slots=True)
class DrainRule:
    """`bytes_per_s` bounds a backlog's rate; 0: no bound. An agent whose broker was away for `away_us` begins within
    `spread_us` after it is back."""

    bytes_per_s: int = 0
    spread_us: int = 30 * _US
    away_us: int = 5 * _US
    burst_least_bytes: int = 1 << 18

    @property
    def burst_bytes(self) -> int:
        """What may go at once, and be in flight: a second's worth."""
        return max(self.bytes_per_s, self.burst_least_bytes)


def start_share_ppm(agent_id: str) -> int:
    """Where in the spread an agent begins: the same each time, and evenly spread over agents."""
    return crc32(agent_id.encode()) * 1_000_000 >> 32


class DrainRate:
    """A bucket that fills by time, and by every byte that is appended: fresh records need no turn of their own, so the
    backlog in front of them shrinks at `bytes_per_s` however much is appended. A record larger than the bucket goes
    when there is anything in it, and the bucket is in debt: nothing starves."""

    def __init__(self, rule: DrainRule, agent_id: str, now_us: int) -> None:
        self._rule = rule
        self._wait_us = rule.spread_us * start_share_ppm(agent_id) // 1_000_000
        # in bytes × µs per s, so that no part of a byte is lost
        self._credit = rule.burst_bytes * _US
        self._filled_us = self._heard_us = now_us
        self._appended = 0
        self._begin_us = now_us
        # what lies in the log at the start is a backlog: a whole fleet may have been restarted at once
        self._is_away = True

    def room_bytes(self, now_us: int, appended_bytes: int, in_flight_bytes: int) -> int | None:
        """How much may be handed to the producer now; 0 or less: nothing, None: no bound.

        `appended_bytes` is the sum since the log was opened, `in_flight_bytes` what the broker has not yet reported.
        """
        if not self._rule.bytes_per_s:
            return None
        gained = (now_us - self._filled_us) * self._rule.bytes_per_s + (appended_bytes - self._appended) * _US
        self._credit = min(self._credit + gained, self._rule.burst_bytes * _US)
        self._filled_us, self._appended = now_us, appended_bytes
        if not in_flight_bytes:
            self._heard_us = now_us
        elif now_us - self._heard_us > self._rule.away_us:
            self._is_away = True
        if now_us < self._begin_us:
            return 0
        return min(-(-self._credit // _US), self._rule.burst_bytes - in_flight_bytes)

    def spend(self, size_bytes: int) -> None:
        """So much was handed over."""
        self._credit -= size_bytes * _US

    def heard(self, now_us: int, backlog_bytes: int) -> None:
        """The broker reported a delivery. If it was away and more than a burst waits, the agent waits for its turn."""
        self._heard_us = now_us
        if self._is_away and backlog_bytes > self._rule.burst_bytes:
            self._begin_us = now_us + self._wait_us
        self._is_away = False
