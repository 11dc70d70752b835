"""Tags of billed lines: the tenant in them, however a cloud or a query tool writes maps."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wattledger_audit.intake import billing_aws_cur, billing_focus
from wattledger_audit.intake.billing_cloud import TenantNames
from wattledger_audit.intake.billing_tags import tenant_tag
from wattledger_audit.intake.literal_text import read_literal

from tests.unit.billing_reading import read_file, read_text


@pytest.mark.parametrize(
    ("text", "tenant"),
    [
        ('{"tenant": "Acme"}', "Acme"),
        ('{"Tenant": "Acme", "customer": "no"}', "Acme"),
        ('{"customer_id": "0012"}', "0012"),
        ('{"customer_id": 12}', "12"),
        ('"tenant": "Acme","env": "p"', "Acme"),
        ('{"user:tenant": "Acme"}', "Acme"),
        ('{"user_tenant": "Acme"}', "Acme"),
        ('{"userTenant": "Acme"}', "Acme"),
        ('[{"key": "tenant", "value": "Acme"}]', "Acme"),
        ('[{"Key": "tenant", "Value": "Acme"}]', "Acme"),
        ("[{'key': 'tenant', 'value': 'Acme'}, {'key': 'x', 'value': None}]", "Acme"),
        ('[["tenant", "Acme"], ["env", "p"]]', "Acme"),
        ("[('tenant', 'Acme')]", "Acme"),
        ("{env=p, user_tenant=Acme Inc}", "Acme Inc"),
        ('{"tenant": null, "client": "Acme"}', "Acme"),
        ('{"tenant": ""}', ""),
        ('{"project": "tenant"}', ""),
        ('{"env": "p"}', ""),
        ("tenant", ""),
        ("{'tenant': __import__('os').getcwd()}", ""),
        ("", ""),
    ],
)
def test_the_tenant_of_a_tags_cell(text: str, tenant: str) -> None:
    assert tenant_tag(text) == tenant


@pytest.mark.parametrize("text", ["1 + 1", "f()", "[x]", "{", "{'a': b}", "'" * 3, "[" * 300])
def test_what_is_no_literal_is_not_evaluated(text: str) -> None:
    with pytest.raises(ValueError):
        read_literal(text)


CUR = (
    "bill/PayerAccountId,bill/BillingPeriodStartDate,lineItem/UsageAccountId,lineItem/LineItemType,"
    "lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/UsageType,lineItem/CurrencyCode,lineItem/UnblendedCost,"
    "resource_tags\n"
)
ROW = "1,2026-10-01,77,Usage,2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,BoxUsage:p5.48xlarge,USD,98.32,"


@pytest.mark.parametrize(("tags", "tenant"), [('"{""user_tenant"": ""Acme""}"', "Acme"), ("{}", "77"), ("", "77")])
def test_reports_of_version_two_have_their_tags_in_one_column(tmp_path: Path, tags: str, tenant: str) -> None:
    assert read_text(tmp_path, CUR + ROW + tags + "\n", billing_aws_cur.IMPORTERS).lines[0].tenant == tenant


@pytest.mark.parametrize(
    "tags",
    [
        pa.array([[("tenant", "Acme")]], pa.map_(pa.string(), pa.string())),
        pa.array([{"tenant": "Acme", "env": None}]),
        pa.array([[{"key": "tenant", "value": "Acme"}]]),
        pa.array(['{"tenant": "Acme"}']),
    ],
)
def test_tags_of_a_typed_file_are_read_whatever_their_type(tmp_path: Path, tags: pa.Array) -> None:
    texts = {
        "BilledCost": "9.5", "BillingCurrency": "USD", "ChargeCategory": "Usage", "SubAccountId": "77",
        "ChargePeriodStart": "2026-10-01T00:00:00Z", "ChargePeriodEnd": "2026-10-02T00:00:00Z",
    }  # fmt: skip
    path = tmp_path / "focus.parquet"
    pq.write_table(pa.table({name: pa.array([text]) for name, text in texts.items()} | {"Tags": tags}), path)
    assert read_file(path, billing_focus.IMPORTERS).lines[0].tenant == "Acme"


def test_an_id_without_its_name_has_the_one_that_it_has_elsewhere() -> None:
    names = TenantNames()
    for name, identity in (("Acme", "1"), ("Acme", "2"), ("Beta", "3"), ("", "3"), ("Gamma", "4"), ("Gamma Inc", "4")):
        names.see(name, identity)
    assert [names.of("", identity) for identity in "12345"] == ["Acme (1)", "Acme (2)", "Beta", "4", "5"]
    assert names.of("Beta", "3") == "Beta"
