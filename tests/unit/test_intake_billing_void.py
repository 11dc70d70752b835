"""Invoices that were open in one export and are void in another: none of their lines count, in whatever order."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_audit.gathering import gather
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import Rejections

D = Decimal
SECONDS = 1_790_812_800, 1_793_491_200


def stripe(number: int, status: str) -> str:
    item = {
        "id": f"il_100000{number}", "object": "line_item", "amount": 9200, "currency": "usd", "invoice": f"in_{number}",
        "period": dict(zip(("start", "end"), SECONDS, strict=True)), "description": "H100 hours", "quantity": 46,
    }  # fmt: skip
    invoice = {
        "id": f"in_{number}", "object": "invoice", "status": status, "customer": "cus_1", "customer_name": "Beta",
        "lines": {"data": [item]},
    }  # fmt: skip
    return json.dumps(invoice)


def stripe_csv(number: int, status: str) -> str:
    header = "id,invoice_id,customer_name,invoice_status,amount,currency,period_start,period_end,quantity,proration\n"
    return header + f"il_{number},in_{number},Beta,{status},9200,usd,2026-10-01,2026-11-01,46,false\n"


def lago(number: int, status: str) -> str:
    fee = {
        "lago_id": f"f{number}", "amount_cents": 9200, "amount_currency": "USD", "units": "46",
        "from_date": "2026-10-01",
        "to_date": "2026-10-31", "item": {"type": "charge", "code": "gpu_hours"},
    }  # fmt: skip
    status = {"open": "finalized", "void": "voided"}[status]
    invoice = {"number": f"in_{number}", "status": status, "currency": "USD", "customer": {"external_id": "beta"}}
    return json.dumps(invoice | {"fees": [fee]})


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("form", [stripe, stripe_csv, lago])
def test_an_invoice_that_is_void_in_any_file_counts_in_none(tmp_path: Path, form: object, turned: bool) -> None:
    assert callable(form)
    texts = {
        "november.x": form(1, "open"), "december.x": form(1, "void"), "other.x": form(2, "open"),
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    names = list(reversed(texts)) if turned else list(texts)
    with Rejections.into(tmp_path / "rejected.csv") as rejections:
        found = gather([(tmp_path / name, None) for name in names], ReadOptions(), rejections)
    counted = {name: sum((line.amount for line in lines), D(0)) for name, lines in found.billing}
    assert counted == {"november.x": D(0), "december.x": D(0), "other.x": D(92)}
    assert rejections.money == {
        ("november.x", "voided", "USD"): D(92), ("december.x", "not_final", "USD"): D(92),
    }  # fmt: skip


def test_a_draft_that_became_final_counts(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(stripe(1, "draft"))
    (tmp_path / "b.json").write_text(stripe(1, "paid"))
    with Rejections.into(tmp_path / "rejected.csv") as rejections:
        found = gather([(tmp_path / "b.json", None), (tmp_path / "a.json", None)], ReadOptions(), rejections)
    assert [[line.amount for line in lines] for _, lines in found.billing] == [[D(92)], []]
