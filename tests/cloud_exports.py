"""Rows of the clouds' billing exports under their real headers, for tests: the cells that matter, the others blank."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

FOCUS = [
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "Id",
    "ServiceName",
    "SkuId",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "Tags",
]
GCP = [
    "billing_account_id",
    "service.id",
    "service.description",
    "sku.id",
    "sku.description",
    "usage_start_time",
    "usage_end_time",
    "project.id",
    "project.name",
    "project.labels",
    "project.ancestry_numbers",
    "labels",
    "system_labels",
    "location.location",
    "location.country",
    "location.region",
    "location.zone",
    "export_time",
    "cost",
    "currency",
    "currency_conversion_rate",
    "usage.amount",
    "usage.unit",
    "usage.amount_in_pricing_units",
    "usage.pricing_unit",
    "credits",
    "invoice.month",
    "cost_type",
    "resource.name",
    "resource.global_name",
    "partition_date",
]
AZURE = [
    "InvoiceSectionName",
    "AccountName",
    "AccountOwnerId",
    "SubscriptionId",
    "SubscriptionName",
    "ResourceGroup",
    "ResourceLocation",
    "Date",
    "ProductName",
    "MeterCategory",
    "MeterSubCategory",
    "MeterId",
    "MeterName",
    "MeterRegion",
    "UnitOfMeasure",
    "Quantity",
    "EffectivePrice",
    "CostInBillingCurrency",
    "CostCenter",
    "ConsumedService",
    "ResourceId",
    "Tags",
    "OfferId",
    "AdditionalInfo",
    "ServiceInfo1",
    "ServiceInfo2",
    "ResourceName",
    "ReservationId",
    "ReservationName",
    "UnitPrice",
    "ProductOrderId",
    "ProductOrderName",
    "Term",
    "PublisherType",
    "PublisherName",
    "ChargeType",
    "Frequency",
    "PricingModel",
    "AvailabilityZone",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrencyCode",
    "BillingPeriodStartDate",
    "BillingPeriodEndDate",
    "BillingProfileId",
    "BillingProfileName",
    "InvoiceSectionId",
    "IsAzureCreditEligible",
    "PartNumber",
    "PayGPrice",
    "PlanName",
    "ServiceFamily",
    "CostAllocationRuleName",
    "benefitId",
    "benefitName",
]
AWS = [
    "bill/BillType",
    "bill/BillingEntity",
    "bill/BillingPeriodEndDate",
    "bill/BillingPeriodStartDate",
    "bill/InvoiceId",
    "bill/PayerAccountId",
    "identity/LineItemId",
    "identity/TimeInterval",
    "lineItem/AvailabilityZone",
    "lineItem/BlendedCost",
    "lineItem/BlendedRate",
    "lineItem/CurrencyCode",
    "lineItem/LegalEntity",
    "lineItem/LineItemDescription",
    "lineItem/LineItemType",
    "lineItem/NormalizationFactor",
    "lineItem/NormalizedUsageAmount",
    "lineItem/Operation",
    "lineItem/ProductCode",
    "lineItem/ResourceId",
    "lineItem/TaxType",
    "lineItem/UnblendedCost",
    "lineItem/UnblendedRate",
    "lineItem/UsageAccountId",
    "lineItem/UsageAmount",
    "lineItem/UsageEndDate",
    "lineItem/UsageStartDate",
    "lineItem/UsageType",
    "pricing/term",
    "pricing/unit",
    "product/ProductName",
    "product/instanceType",
    "product/productFamily",
    "reservation/EffectiveCost",
    "savingsPlan/SavingsPlanEffectiveCost",
    "resourceTags/user:tenant",
]

FOCUS_USUAL = {
    "BillingAccountId": "1234567890123", "BillingAccountName": "SunBird", "BillingCurrency": "USD",
    "BillingPeriodStart": "2026-10-01 00:00:00", "BillingPeriodEnd": "2026-11-01 00:00:00", "ChargeCategory": "Usage",
    "ChargeDescription": "H100 instance hours", "ChargeFrequency": "Usage-Based", "ProviderName": "AWS",
    "ChargePeriodStart": "2026-10-05 00:00:00", "ChargePeriodEnd": "2026-10-06 00:00:00",
    "ServiceName": "Elastic Compute Cloud", "SkuId": "H100", "SubAccountId": "51738928782", "SubAccountName": "acme",
}  # fmt: skip
GCP_USUAL = {
    "billing_account_id": "018984-D0AAA4-940B88", "service.description": "Compute Engine", "sku.id": "6B8F",
    "sku.description": "Nvidia H100 GPU", "usage_start_time": "2026-10-05 00:00:00+00:00",
    "usage_end_time": "2026-10-05 01:00:00+00:00", "project.id": "acme", "project.name": "acme", "currency": "USD",
    "currency_conversion_rate": "1.0", "usage.amount_in_pricing_units": "1.0", "usage.pricing_unit": "hour",
    "credits": "[]", "invoice.month": "202610", "cost_type": "regular", "partition_date": "2026-10-05",
}  # fmt: skip
AZURE_USUAL = {
    "SubscriptionId": "e18e1552-c6dd-45d1-973c-999999999999", "SubscriptionName": "acme", "Date": "9/2/2023",
    "ProductName": "NC H100 v5", "MeterCategory": "Virtual Machines", "MeterId": "59bc01e3", "MeterName": "NC40ads",
    "UnitOfMeasure": "1 Hour", "Quantity": "1", "CostInBillingCurrency": "10", "ChargeType": "Usage",
    "BillingAccountId": "12345678", "BillingCurrencyCode": "CAD", "BillingPeriodStartDate": "9/1/2023",
    "BillingPeriodEndDate": "9/30/2023",
}  # fmt: skip
AWS_USUAL = {
    "bill/BillType": "Anniversary", "bill/BillingEntity": "AWS", "bill/BillingPeriodStartDate": "2026-10-01T00:00:00Z",
    "bill/BillingPeriodEndDate": "2026-11-01T00:00:00Z", "bill/PayerAccountId": "012345678910",
    "lineItem/CurrencyCode": "USD", "lineItem/LineItemType": "Usage", "lineItem/ProductCode": "AmazonEC2",
    "lineItem/UsageAccountId": "012345678910", "lineItem/UsageAmount": "1",
    "lineItem/UsageStartDate": "2026-10-05T00:00:00Z", "lineItem/UsageEndDate": "2026-10-05T01:00:00Z",
    "lineItem/UsageType": "BoxUsage:p5.48xlarge", "product/instanceType": "p5.48xlarge", "pricing/unit": "Hrs",
    "lineItem/LineItemDescription": "p5.48xlarge H100 Instance Hour", "resourceTags/user:tenant": "acme",
}  # fmt: skip


def export(header: Sequence[str], usual: Mapping[str, str], rows: Iterable[Mapping[str, str]]) -> str:
    """A CSV of these rows; cells that neither names are blank."""
    out = io.StringIO()
    writer = csv.DictWriter(out, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**usual, **row} for row in rows)
    return out.getvalue()


def focus(*rows: Mapping[str, str]) -> str:
    return export(FOCUS, {**dict.fromkeys(FOCUS, "NULL"), **FOCUS_USUAL}, rows)


def gcp(*rows: Mapping[str, str]) -> str:
    return export(GCP, GCP_USUAL, rows)


def azure(*rows: Mapping[str, str]) -> str:
    return export(AZURE, AZURE_USUAL, rows)


def aws(*rows: Mapping[str, str]) -> str:
    return export(AWS, AWS_USUAL, rows)
