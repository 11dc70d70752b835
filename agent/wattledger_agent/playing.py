"""The command `play`: a recorded trace through the agent's own log and publisher."""

from datetime import UTC, datetime
from pathlib import Path

from wattledger_schemas import Codec

from wattledger_agent.build import build_wal
from wattledger_agent.clock import SystemClock
from wattledger_agent.player import Pace, Player
from wattledger_agent.publisher import Publisher
from wattledger_agent.running import AgentRefused
from wattledger_agent.settings import AgentSettings
from wattledger_agent.trace import read_trace
from wattledger_agent.wal_cipher import KeyRefused
from wattledger_agent.wal_record import WalUnavailable


def play_trace(settings: AgentSettings, trace: Path, speed: float, bootstrap: str = "", topic_prefix: str = "") -> str:
    """Play to the end; what was played, in words. Raises TraceRefused, AgentRefused."""
    given = {"bootstrap": bootstrap, "topic_prefix": topic_prefix}
    kafka = settings.kafka.model_copy(update={name: value for name, value in given.items() if value})
    codec = Codec()
    try:
        log = build_wal(settings, settings.agent_id or "player", codec)
    except (WalUnavailable, KeyRefused) as error:
        raise AgentRefused(str(error)) from error
    publisher = Publisher(log, kafka.config, kafka.topic_prefix, kafka.in_flight)
    publisher.start()
    player = Player(log, publisher, SystemClock(), Pace(speed or None))
    try:
        played = player.play(read_trace(trace, codec))
    finally:
        log.close()
    return f"{played.records} records played and delivered, event time up to {_moment(played.last_at_us)}"


def _moment(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
