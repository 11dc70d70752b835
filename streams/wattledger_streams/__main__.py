"""`python -m wattledger_streams sessions|meter|sink`: one processor, one Faust app, one process."""

import asyncio
import logging
import sys
from collections.abc import Callable

import faust
import structlog

from wattledger_streams.lag import LagWatch, processor_topics
from wattledger_streams.layout import EXIT_LAYOUT, Layout, LayoutChanged
from wattledger_streams.metrics import serve_metrics
from wattledger_streams.partitions import ACKNOWLEDGED, TopicsMissing, partition_counts
from wattledger_streams.settings import WorkerSettings

EXIT_USAGE = 2
EXIT_CONFIGURATION = 4


def _builder(processor: str) -> Callable[[WorkerSettings], faust.App]:
    """Imported when asked for: a sessions worker must not load ClickHouse's engine."""
    if processor == "sessions":
        from wattledger_streams.sessions import build_sessions

        return build_sessions
    if processor == "meter":
        from wattledger_streams.meter import build_meter

        return build_meter
    from wattledger_streams.sink import build_sink

    return build_sink


def _use_uvloop() -> None:
    """Faust's cost a record is the event loop's: a third less under uvloop (not made for Windows)."""
    if sys.platform != "win32":
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def main() -> None:
    """Run a worker until it is stopped. Exit codes: 0, 2 usage, 4 configuration, 70 crashed, 71 stalled, 72 another
    layout of partitions, 73 a log that ends below what was acknowledged."""
    if len(sys.argv) != 2 or sys.argv[1] not in ACKNOWLEDGED:
        sys.stderr.write(f"usage: python -m wattledger_streams {'|'.join(ACKNOWLEDGED)}\n")
        sys.exit(EXIT_USAGE)
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    _use_uvloop()
    settings = WorkerSettings()
    settings.work_dir.mkdir(parents=True, exist_ok=True)
    try:
        layout = Layout(settings)
        layout.compare(layout.look())
        layout.check(partition_counts(settings))
        app = _builder(sys.argv[1])(settings)
    except TopicsMissing as error:
        sys.stderr.write(f"wattledger_streams: {error}\n")
        sys.exit(EXIT_CONFIGURATION)
    except LayoutChanged as error:
        sys.stderr.write(f"wattledger_streams: {error}\n")
        sys.exit(EXIT_LAYOUT)
    if settings.metrics_port:
        serve_metrics(settings.metrics_port)
        topics = processor_topics(partition_counts(settings), ACKNOWLEDGED[sys.argv[1]], settings.topic_prefix)
        LagWatch(settings.kafka(), settings.group(sys.argv[1]), topics).start()
    worker = faust.Worker(app, loglevel="WARN", redirect_stdouts=False, quiet=True, override_logging=True)
    worker.execute_from_commandline()


if __name__ == "__main__":
    main()
