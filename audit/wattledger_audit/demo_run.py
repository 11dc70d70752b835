"""One run of the demo: stack up, day played, tables summarised, stack down, report written."""

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from wattledger_audit.demo import POLICY, Say, play_into, read_client, settle, wait_fresh
from wattledger_audit.demo_records import read_day
from wattledger_audit.demo_report import write_day
from wattledger_audit.processes import total_pss_bytes
from wattledger_audit.settling import partitions_of
from wattledger_audit.stack import Stack, StackSettings
from wattledger_audit.summary import Summary, build_summary
from wattledger_audit.topic_amounts import amounts_by_component, fold_topic
from wattledger_audit.trace_items import Emitted


@dataclass(frozen=True, slots=True)
class DemoRun:
    """What a run gave besides its summary."""

    summary: Summary
    report: Path
    seconds: float
    report_seconds: float
    """Part of `seconds` that reading the topics and writing the report took."""
    peak_pss_bytes: int
    restarts: int
    broker_line: str


def run_demo(settings: StackSettings, emissions: Iterable[Emitted], out: Path, say: Say) -> DemoRun:
    """Start the stack, play, settle, verify, summarise, report; writes `summary.json` and the report into `out`."""
    began_s = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    with Stack(settings) as stack:
        say(stack.broker.line)
        say("playing the day through write-ahead log, Kafka, Faust and ClickHouse")
        played = play_into(stack, emissions, say)
        say(f"  {played.records} records delivered after {time.monotonic() - began_s:.0f} s; settling")
        settle(stack, say)
        client = read_client(stack)
        wait_fresh(client)
        counts = partitions_of(settings.partitions)
        topic, reliable = settings.topic_prefix + "tenant-cost", stack.broker.reliable_offsets
        folded = fold_topic(stack.kafka, topic, counts["tenant-cost"], reliable)
        summary = build_summary(client, amounts_by_component(folded), POLICY)
        client.close()
        (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
        say("reading the topics again for the report")
        read_s = time.monotonic()
        records = read_day(stack.kafka, settings.topic_prefix, counts, reliable, folded)
        read_s = time.monotonic() - read_s
        restarts, line = stack.restarts, stack.broker.line
    # The stack is down by now: the report needs nothing but the records, and none of the stack's memory.
    write_s = time.monotonic()
    del folded
    report = write_day(records, summary, POLICY, out, lambda text: say(f"  {text}"))
    peak = max(stack.peak_pss_bytes, total_pss_bytes([os.getpid()]))
    now_s = time.monotonic()
    return DemoRun(summary, report, now_s - began_s, read_s + now_s - write_s, peak, restarts, line)
