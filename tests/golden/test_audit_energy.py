"""Energy and its money, worked by hand: watts × hours × tariff × PUE, measured by telemetry, modelled, or unknown.

A GPU draws a steady power between two readings of one value; between two unlike readings the mean of both.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_audit.audit_run import Audited
from wattledger_core.verdict import HEALTHY, INSUFFICIENT

from tests.audit_cases import (
    DAY,
    bill,
    billing,
    costs,
    fleet,
    found,
    idle_costs,
    machine,
    own_costs,
    run,
    state_cost,
    usage,
)
from tests.audit_runner import audit_texts, tenant_row, unexplained

A, B = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
TARIFF = "energy: {pue: 1.5, default_per_kwh: 0.20}"
IDLE_POWER = "power: [{busy_w: 700, idle_w: 100}]"
START = datetime(2026, 2, 10, tzinfo=UTC)
HEADER = "timestamp, hostname, index, uuid, power.draw [W]\n"


def readings(
    device: str, index: int, watts: Sequence[tuple[float, float]], until: float, minutes: int = 1, node: str = "n1",
    start: datetime = START,
) -> str:  # fmt: skip
    """Rows of one GPU, one each `minutes`: `watts` are (from hour, power), the last one holds to `until`, inclusive."""
    rows = []
    first = watts[0][0]
    for step in range(round((until - first) * 60 / minutes) + 1):
        hour = first + step * minutes / 60
        power = [value for since, value in watts if since <= hour + 1e-9][-1]
        rows.append(
            f"{start + timedelta(hours=hour):%Y/%m/%d %H:%M:%S}.000, {node}, {index}, {device}, {power:.2f} W\n"
        )
    return "".join(rows)


def audit(folder: Path, trace: str, log: str, *said: str, gpus: int = 2, **more: str) -> Audited:
    """The audit of the day with telemetry, on one machine of these GPUs."""
    files = {"t.csv": HEADER + trace, "u.csv": log, "f.csv": fleet(machine(gpus=gpus, devices=more.get("devices", "")))}
    files["c.yaml"] = costs(*said, timezone=more.get("timezone", "UTC"))
    return audit_texts(folder, files, more.get("period", DAY), timezone="UTC")


def energy(audited: Audited, tenant: str) -> Decimal | None:
    text = tenant_row(audited, tenant).energy_kwh
    return None if text is None else Decimal(text)


def test_two_gpus_of_which_one_has_an_idle_stretch(tmp_path: Path) -> None:
    """A: 500 W from 0 to 4, then 100 W to 24. The minute in which it falls has the mean of both, 300 W: 500 × 4 h less
    200 W for a minute is 1996.666… Wh for the run, 100 × 20 = 2000 Wh idle. B idles at 100 W: 2400 Wh.
    × 0.20 × 1.5: 1.99666… kWh cost 0.599, 4.4 kWh cost 1.32; with machines at 1 an hour, 4.599 and 44 + 1.32."""
    trace = readings(A, 0, [(0, 500), (4, 100)], 24) + readings(B, 1, [(0, 100)], 24)
    audited = audit(tmp_path, trace, usage(run("j", "a", 0, 4, device=A)), TARIFF, devices=f"{A};{B}")
    assert energy(audited, "a") == Decimal("1.996667")
    row = tenant_row(audited, "a")
    assert (row.cost_energy, row.cost_own, row.energy_depth, row.measured_ratio) == (
        "0.599", "4.599", "counter", "1.0000",
    )  # fmt: skip
    assert idle_costs(audited) == {"n1": Decimal("45.32")}
    assert audited.report.coverage.measured_ratio == "1.0000"
    assert found(audited) == {}
    assert unexplained(audited) == []


def test_where_the_log_does_not_say_which_gpu_energy_is_shared_by_count(tmp_path: Path) -> None:
    """The run has one of two GPUs, which one is not said. Of each GPU's floor (100 W) it has half, of what is above it
    all: (0.4 + 0.4) ÷ 2 + 400 W × 4 h less a minute's 200 W = 0.4 + 1.59666… kWh."""
    trace = readings(A, 0, [(0, 500), (4, 100)], 24) + readings(B, 1, [(0, 100)], 24)
    audited = audit(tmp_path, trace, usage(run("j", "a", 0, 4)), TARIFF, IDLE_POWER)
    assert energy(audited, "a") == Decimal("1.996667")
    assert found(audited) == {"device_unknown": 1}
    # 1.99666… + 4.4 kWh, in whatever way they are shared, at 0.20 × 1.5
    assert state_cost(audited, "installed") == 48 + Decimal("1.919")
    assert unexplained(audited) == []


def test_two_tenants_of_unknown_gpus_have_their_parts_of_both(tmp_path: Path) -> None:
    """a has 3 of 4 GPUs and b one, all day; two GPUs draw 400 W and two 200 W: 28.8 kWh, three quarters are a's."""
    trace = "".join(readings(f"GPU-{n}", n, [(0, 400 if n < 2 else 200)], 24) for n in range(4))
    log = usage(run("j", "a", 0, 24, 3), run("k", "b", 0, 24))
    audited = audit(tmp_path, trace, log, TARIFF, gpus=4)
    assert (energy(audited, "a"), energy(audited, "b")) == (Decimal("21.6"), Decimal("7.2"))


def test_readings_beyond_the_period_are_cut_at_its_edges(tmp_path: Path) -> None:
    """1 kW from 6 h before the day to 6 h after it: 24 kWh, and not 36."""
    audited = audit(tmp_path, readings(A, 0, [(-6, 1000)], 30), usage(run("j", "a", -6, 30)), TARIFF, gpus=1)
    assert energy(audited, "a") == 24


@pytest.mark.parametrize("minutes", [1, 15], ids=["each minute", "each quarter of an hour"])
@pytest.mark.parametrize(
    ("day", "cost"),
    [
        # an ordinary day: 6 h at 0.10 and 18 h at 0.30 by the local clock
        ("2026-10-24", "6.00"),
        # the night has 7 hours when clocks go back: 0.7 + 5.4
        ("2026-10-25", "6.10"),
        # and 5 when they go forward: 0.5 + 5.4
        ("2026-03-29", "5.90"),
    ],
)
def test_a_time_of_use_tariff_follows_the_local_clock(minutes: int, day: str, cost: str, tmp_path: Path) -> None:
    """1 kW all day in Berlin, the night from 0 to 6 is cheap: readings must be cut where the price changes."""
    start = datetime.fromisoformat(f"{day}T00:00:00+00:00")
    last = (start + timedelta(days=1)).date().isoformat()
    said = (
        "energy: {pue: 1, timezone: Europe/Berlin, periods: [{from: '00:00', to: '06:00', per_kwh: 0.10}], "
        "default_per_kwh: 0.30}"
    )
    log = usage({**run("j", "a", 0, 24), "start": f"{day}T00:00:00Z", "end": ""})
    log = log.replace(f"{day}T00:00:00Z", (start - timedelta(hours=3)).isoformat())
    trace = readings(A, 0, [(-3, 1000)], 27, minutes, start=start)
    audited = audit(
        tmp_path, trace, log, said, gpus=1, timezone="Europe/Berlin", period=f"{day}..{last}",
    )  # fmt: skip
    assert tenant_row(audited, "a").cost_energy == cost
    assert unexplained(audited) == []


def test_pue_counts_once(tmp_path: Path) -> None:
    """A meter that has the overhead in it already: 24 kWh × 0.20, not × 1.5."""
    trace, log = readings(A, 0, [(0, 1000)], 24), usage(run("j", "a", 0, 24))
    included = "energy: {pue: 1.5, pue_included: true, default_per_kwh: 0.20}"
    assert tenant_row(audit(tmp_path / "1", trace, log, TARIFF, gpus=1), "a").cost_energy == "7.20"
    assert tenant_row(audit(tmp_path / "2", trace, log, included, gpus=1), "a").cost_energy == "4.80"


def test_modelled_energy_is_marked_as_such(tmp_path: Path) -> None:
    """One GPU held for 10 h at 700 W, free for 14 h at 100 W: 7 and 1.4 kWh; × 0.20 × 1.5: 2.10 and 0.42."""
    files = {
        "u.csv": usage(run("j", "a", 0, 10)), "f.csv": fleet(machine(gpus=1)), "c.yaml": costs(TARIFF, IDLE_POWER),
        "b.csv": billing(bill("a", "H100", "10", "99")),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, DAY)
    row = tenant_row(audited, "a")
    assert (row.energy_kwh, row.energy_depth, row.cost_energy, row.verdict) == ("7.000000", "modelled", "2.10", HEALTHY)
    assert audited.report.idle[0].energy_kwh == "1.400000"
    assert idle_costs(audited) == {"n1": Decimal("14.42")}
    assert audited.report.coverage.modelled_ratio == "1.0000"


def test_what_telemetry_does_not_cover_is_modelled_or_unknown(tmp_path: Path) -> None:
    """Readings from 0 to 6 of a run of 24 h: 6 kWh measured; the other 18 h at 700 W are 12.6, or unknown."""
    trace, log = readings(A, 0, [(0, 1000)], 6), usage(run("j", "a", 0, 24))
    modelled = audit(tmp_path / "1", trace, log, TARIFF, IDLE_POWER, gpus=1)
    assert (energy(modelled, "a"), tenant_row(modelled, "a").energy_depth) == (Decimal("18.6"), "counter and modelled")
    unknown = audit(tmp_path / "2", trace, log, TARIFF, gpus=1)
    assert (energy(unknown, "a"), tenant_row(unknown, "a").measured_ratio) == (Decimal(6), "0.2500")
    assert unknown.report.coverage.unknown_energy_ratio == "0.7500"


def test_a_quarter_of_known_energy_gives_no_verdict(tmp_path: Path) -> None:
    files = {
        "t.csv": HEADER + readings(A, 0, [(0, 1000)], 6), "u.csv": usage(run("j", "a", 0, 24)),
        "f.csv": fleet(machine(gpus=1)), "c.yaml": costs(TARIFF), "b.csv": billing(bill("a", "H100", "24", "99")),
    }  # fmt: skip
    row = tenant_row(audit_texts(tmp_path, files, DAY, timezone="UTC"), "a")
    assert row.verdict == INSUFFICIENT
    assert "energy is known for 250000 ppm" in row.reason


def test_a_gap_is_unknown_and_not_a_straight_line(tmp_path: Path) -> None:
    """No reading from 6 to 12: 6 + 12 h of 1 kW are measured."""
    trace = readings(A, 0, [(0, 1000)], 6) + readings(A, 0, [(12, 1000)], 24)
    audited = audit(tmp_path, trace, usage(run("j", "a", 0, 24)), TARIFF, gpus=1)
    assert (energy(audited, "a"), tenant_row(audited, "a").measured_ratio) == (Decimal(18), "0.7500")


def test_telemetry_of_a_machine_that_nothing_names_is_listed(tmp_path: Path) -> None:
    trace = readings(A, 0, [(0, 1000)], 24, node="stranger")
    audited = audit(tmp_path, trace, usage(run("j", "a", 0, 24)), TARIFF, gpus=1)
    assert found(audited) == {"telemetry_of_unknown_node": 1}
    assert energy(audited, "a") is None


def test_a_power_bill_stands_against_what_was_measured(tmp_path: Path) -> None:
    """80 kWh on the power bill of two days are 40 of the day; the GPUs drew 24: hosts and cooling have 16."""
    said = "meter: [{from: 2026-02-10, to: 2026-02-12, kwh: 80}]"
    audited = audit(tmp_path, readings(A, 0, [(0, 1000)], 24), usage(run("j", "a", 0, 24)), TARIFF, said, gpus=1)
    tie = next(tie for tie in audited.report.tie_out if tie.name == "energy")
    assert (tie.left, tie.right, tie.residual, tie.unit) == ("40.00", "24.00", "16.00", "kWh")
    assert tie.named


TOKENS = usage(
    run("j", "a", 0, 10, device=A, tokens="36000000", model="llama"),
    run("k", "b", 12, 17, device=A, tokens="9000000", model="llama"),
    run("l", "a", 18, 20, device=B, tokens="", model="llama"),
)


def test_joules_per_token(tmp_path: Path) -> None:
    """a: 1 kW × 10 h = 36 MJ over 36 M tokens: 1 J each. b: 1 kW × 5 h = 18 MJ over 9 M: 2 J. At 0.20 × 1.5 a kWh, a
    million tokens of a are 1 MJ = 0.2777… kWh = 0.083333. Runs whose tokens are not known are not in it."""
    trace = readings(A, 0, [(0, 1000)], 24) + readings(B, 1, [(0, 1000)], 24)
    audited = audit(tmp_path, trace, TOKENS, TARIFF, devices=f"{A};{B}")
    assert [
        (row.tenant, row.model, row.runs, row.tokens, row.joules_per_token, row.cost_per_million_tokens, row.depth)
        for row in audited.report.tokens
    ] == [
        ("a", "llama", 1, 36_000_000, "1.000000", "0.083333", "counter"),
        ("b", "llama", 1, 9_000_000, "2.000000", "0.166667", "counter"),
    ]


def test_tokens_without_energy_are_counted_and_no_more(tmp_path: Path) -> None:
    files = {"u.csv": TOKENS, "f.csv": fleet(machine(gpus=2, devices=f"{A};{B}")), "c.yaml": costs()}
    row = audit_texts(tmp_path, files, DAY).report.tokens[0]
    assert (row.tokens, row.energy_joules, row.joules_per_token, row.depth) == (36_000_000, None, None, "unknown")


def test_a_slice_of_a_measured_gpu(tmp_path: Path) -> None:
    """3/7 and 4/7 of one A100 at 700 W for 10 h: 3 and 4 kWh."""
    log = usage(
        run("j", "a", 0, 10, share_num="3", share_den="7", gpu_model="A100"),
        run("k", "b", 0, 10, share_num="4", share_den="7", gpu_model="A100"),
    )  # fmt: skip
    files = {
        "t.csv": HEADER + readings(A, 0, [(0, 700)], 24), "u.csv": log, "c.yaml": costs(TARIFF),
        "f.csv": fleet(machine(gpus=1, gpu_model="A100")),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, DAY, timezone="UTC")
    assert (energy(audited, "a"), energy(audited, "b")) == (Decimal(3), Decimal(4))
    assert own_costs(audited) == {
        "a": Decimal("5.185714285714"), "b": Decimal("6.914285714286"),
    }  # fmt: skip


def test_the_slices_that_nobody_has_bear_their_part(tmp_path: Path) -> None:
    """3/7 of an A100 at 700 W for 10 h, the rest of it and of the day nobody's: 3 kWh, and 4 + 9.8 idle."""
    log = usage(run("j", "a", 0, 10, share_num="3", share_den="7", gpu_model="A100"))
    files = {
        "t.csv": HEADER + readings(A, 0, [(0, 700)], 24), "u.csv": log, "c.yaml": costs(TARIFF),
        "f.csv": fleet(machine(gpus=1, gpu_model="A100")),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, DAY, timezone="UTC")
    assert energy(audited, "a") == 3
    assert audited.report.idle[0].energy_kwh == "13.800000"


def test_energy_while_the_provider_pays_is_the_providers(tmp_path: Path) -> None:
    """1 kW × 24 h: 10 h of a node failure that the provider bears, 14 h of the tenant's second attempt."""
    log = usage(run("j", "a", 0, 10, device=A, state="NODE_FAIL"), run("j", "a", 10, 24, device=A, attempt="1"))
    audited = audit(tmp_path, readings(A, 0, [(0, 1000)], 24), log, TARIFF, gpus=1, devices=A)
    assert energy(audited, "a") == 14
    assert state_cost(audited, "unavailable") == 10 + 3


def all_uj(audited: Audited) -> int:
    """Energy of all lines."""
    return sum(line.energy_uj or 0 for line in audited.assessment.costed.lines if line.kind == "energy")


def test_no_joule_gets_lost_whoever_held_what(tmp_path: Path) -> None:
    """Two GPUs at 300 and 500 W all day are 19.2 kWh, in holds, idle time and maintenance alike."""
    trace = readings(A, 0, [(0, 300)], 24) + readings(B, 1, [(0, 500)], 24)
    logs = (
        usage(run("j", "a", 1, 5, device=A), run("k", "b", 3, 9, device=B)),
        usage(run("j", "a", 1, 5, 2), run("k", "b", 3, 9, 1), run("l", "c", 8, 11, 1)),
        usage(run("j", "a", -4, 5, device=A, exclusive="yes"), run("k", "b", 23, 40, device=B)),
        usage(run("j", "a", 1.123, 5.3217, share_num="1", share_den="7"), run("k", "b", 3, 9, 1)),
    )  # fmt: skip
    for number, log in enumerate(logs):
        audited = audit(tmp_path / str(number), trace, log, TARIFF, devices=f"{A};{B}")
        assert all_uj(audited) == 19_200 * 3600 * 1_000_000
        assert unexplained(audited) == []
