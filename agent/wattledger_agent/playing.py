"""The command `play`: a recorded trace through the agent's own log and publisher."""

from datetime import UTC, datetime
from pathlib import Path

from wattledger_schemas import Codec

from wattledger_agent.build import build_wal
from wattledger_agent.clock import SystemClock
from wattledger_agent.player import Pace, Player
from wattledger_agent.publisher import Publisher
from wattledger_agent.running import refusing
from wattledger_agent.settings import AgentSettings
from wattledger_agent.trace import TraceRefused, read_trace


def play_trace(settings: AgentSettings, trace: Path, speed: float) -> str:
    """Play to the end; what was played, in words. Raises TraceRefused, AgentRefused, AgentStopped."""
    kafka, codec = settings.kafka, Codec()
    with refusing(settings):
        log = build_wal(settings, settings.agent_id or "player", codec)
    publisher = Publisher(log, kafka.config, kafka.topic_prefix, kafka.in_flight)
    publisher.start()
    player = Player(log, publisher, SystemClock(), Pace(speed or None))
    try:
        played = player.play(read_trace(trace, codec))
    finally:
        log.close()
    if not played.records:
        raise TraceRefused(f"{trace} holds no record: record it again with `wattledger-agent record`")
    return f"{played.records} records played and delivered, event time up to {_moment(played.last_at_us)}"


def _moment(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
