"""The ticker as a process of its own: reads what nodes report, writes ticks through a log and a publisher.

Two at once are harmless: sessions and pricing take the newest of all ticks, and each ticker is silent where the other
was first. So one may stand by for another, and a deployment that starts two by mistake bills the same.
"""

import threading
from collections.abc import Callable

from wattledger_schemas import Codec

from wattledger_agent.broker_link import Config
from wattledger_agent.clock import Clock
from wattledger_agent.publisher import Publisher
from wattledger_agent.ticker import Ticker, TickRule
from wattledger_agent.ticker_watermarks import KafkaWatermarks
from wattledger_agent.wal import Wal

_LOOK_S = 0.5


def run_ticker(
    wal: Wal,
    kafka: Config | Callable[[], Config],
    topic_prefix: str,
    clock: Clock,
    stop: threading.Event,
    rule: TickRule | None = None,
    period_s: float = 1.0,
    codec: Codec | None = None,
) -> None:
    """Tick until `stop` is set, then return; `wal` stays open, with what was not delivered.

    Raises PublisherEnded when the publisher ended by a bug, and whatever ended the ticking.
    """
    used = codec or Codec()
    watermarks = KafkaWatermarks(kafka, topic_prefix, clock, used)
    ticker = Ticker(wal, watermarks, clock, used, rule or TickRule())
    publisher = Publisher(wal, kafka, topic_prefix, clock=clock)
    failed: list[BaseException] = []

    def tick() -> None:
        try:
            ticker.run(period_s, stop)
        except BaseException as error:
            failed.append(error)
            stop.set()
            raise

    thread = threading.Thread(target=tick, name="ticker", daemon=True)
    publisher.start()
    thread.start()
    try:
        while not stop.wait(_LOOK_S):
            publisher.check()
    finally:
        stop.set()
        thread.join()
        watermarks.close()
        publisher.stop(empty=False)
    if failed:
        raise failed[0]
