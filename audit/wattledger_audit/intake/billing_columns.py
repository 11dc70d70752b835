"""Which column of a billing table means what: header words, English and German, with the currency or unit in them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wattledger_audit.intake.currency import currency_code
from wattledger_audit.intake.currency_sign import CODES

CANONICAL = ("invoice_id", "tenant", "period_start", "period_end", "sku", "quantity", "unit", "amount", "currency")

_NAMES: Mapping[str, str] = {
    "tenant": """
        tenant tenant_name customer_name customer client_name client account_name kunde kundenname mandant debitor
        auftraggeber rechnungsempfaenger company company_name firma organization organization_name organisation org
        org_name bill_to billed_to buyer subscriber account konto team
        """,
    "tenant_id": """
        tenant_id customer_id account_id client_id org_id organization_id customer_no customer_number account_number
        account_no kundennummer kundennr kunden_nr kunden_id kd_nr
        """,
    "project": "project project_name project_id projekt projektname workspace namespace",
    "invoice_id": """
        invoice_id invoice invoice_number invoice_no invoice_nr invoice_num inv inv_no inv_id inv_nr bill_id bill_no
        bill_number document_number document_no doc_no rechnung rechnungsnummer rechnungsnr rechnung_nr rechnungs_nr
        rechnung_nummer rechnung_no re_nr rg_nr belegnummer beleg_nr belegnr beleg statement_id number nummer
        """,
    "start": """
        period_start start start_date start_time service_start service_start_date service_from service_period_start
        service_period_from usage_start usage_start_date billing_start billing_period_start billing_period_from
        period_from from from_date date_from valid_from begin begin_date von ab datum_von von_datum zeitraum_von
        leistungszeitraum_von leistung_von leistungsbeginn beginn startdatum anfang abrechnungszeitraum_von
        periode_von
        """,
    "end": """
        period_end end end_date end_time service_end service_end_date service_to service_through service_period_end
        service_period_to usage_end usage_end_date billing_end billing_period_end billing_period_to period_to
        period_through to to_date date_to valid_to through thru until till bis datum_bis bis_datum zeitraum_bis
        leistungszeitraum_bis leistung_bis leistungsende ende enddatum abrechnungszeitraum_bis periode_bis
        """,
    "period": """
        period billing_period service_period usage_period month billing_month service_month usage_month invoice_month
        year_month yearmonth month_year zeitraum leistungszeitraum abrechnungszeitraum monat abrechnungsmonat
        leistungsmonat periode abrechnungsperiode
        """,
    "day": "usage_date service_date usage_day service_day day tag leistungsdatum nutzungsdatum",
    "sku": """
        sku sku_id sku_name product product_name product_code item item_name item_code article artikel artikelnummer
        artikelnr artikel_nr produkt produktname leistung service service_name meter resource resource_type gpu_type
        gpu_model gpu instance_type su_type line_item posten
        """,
    "description": """
        description desc details line_description item_description memo note notes text beschreibung bezeichnung
        buchungstext comment bemerkung kommentar hinweis artikelbezeichnung
        """,
    "plan": "plan plan_name pricing_plan price_plan rate_plan tariff tarif pricing_model contract vertrag",
    "category": """
        category kategorie charge_type charge_category line_type line_item_type type typ art kind revenue_type
        revenue_category
        """,
    "quantity": """
        quantity qty menge anzahl usage_quantity billed_quantity consumed_quantity usage verbrauch nutzung gpu_hours
        gpu_hrs gpu_h gpuh gpu_stunden gpu_std hours hrs stunden std node_hours instance_hours su_hours units count
        """,
    "unit": "unit uom unit_of_measure einheit mengeneinheit me measure",
    "unit_price": """
        unit_price price_per_unit unit_rate unit_cost price rate einzelpreis e_preis stueckpreis preis
        preis_pro_einheit ep satz rate_per_hour price_per_hour hourly_rate stundensatz
        """,
    "amount": """
        net_amount amount_net net netto nettobetrag betrag_netto netto_betrag net_total total_net line_total_net
        amount_excl_tax amount_excl_vat amount_ex_tax amount_ex_vat amount_without_tax total_excl_tax total_excl_vat
        subtotal sub_total amount amount_billed billed_amount line_amount betrag line_total line_net extended_price
        extended_amount cost total_cost charge charges total_charge billed_cost revenue invoiced_amount invoice_amount
        fee gesamtpreis summe umsatz kosten value wert total_amount total total_price gesamt gesamtbetrag
        """,
    "gross": """
        gross gross_amount amount_gross brutto bruttobetrag betrag_brutto brutto_betrag gross_total total_gross
        total_incl_tax total_incl_vat amount_incl_tax amount_incl_vat total_with_tax total_including_tax
        amount_with_tax
        """,
    "tax": """
        tax tax_amount vat vat_amount gst mwst mwst_betrag ust ust_betrag umsatzsteuer mehrwertsteuer steuer
        steuerbetrag sales_tax
        """,
    "currency": "currency currency_code billing_currency ccy curr cur iso_currency waehrung whg devise",
    "status": "status invoice_status state rechnungsstatus zustand",
    "line_id": "line_id line_item_id invoice_line_id position_id line_no line_number line pos position zeile",
}
FIELDS = tuple(_NAMES)
_RANK = {
    (field, name): rank for field, names in _NAMES.items() for rank, name in enumerate(names.split())
}  # fmt: skip
_FIELDS: dict[str, list[str]] = {}
for _field, _name in _RANK:
    _FIELDS.setdefault(_name, []).append(_field)

_MAY_BE_GROSS = frozenset(
    ("invoice_amount", "total_amount", "total", "total_price", "gesamt", "gesamtbetrag", "gesamtpreis", "summe")
)
_UNIT_NAMES = {
    **dict.fromkeys(("gpu_hours", "gpu_hrs", "gpu_h", "gpuh", "gpu_stunden", "gpu_std"), "gpu_hours"),
    **dict.fromkeys(("hours", "hrs", "stunden", "std"), "hours"),
    "node_hours": "node_hours", "instance_hours": "instance_hours", "su_hours": "SU hours",
}  # fmt: skip
_MONEY = frozenset({"amount", "gross", "tax", "unit_price"})
_BRACKETS = re.compile(r"[(\[]([^)\]]*)[)\]]")
_WORD_EDGE = re.compile(r"(?<=[a-zäöü0-9])(?=[A-ZÄÖÜ])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_WORD = re.compile(r"[^a-z0-9]+")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
_INCLUSIVE = frozenset({"inclusive", "incl", "inkl", "inklusive", "einschl", "einschliesslich"})
_EXCLUSIVE = frozenset({"exclusive", "excl", "exkl", "exklusive", "ausschliesslich"})
_NET = frozenset({"net", "netto", "excl", "exkl", "ex"})
_GROSS = frozenset({"gross", "brutto", "incl", "inkl"})


class Column(NamedTuple):
    """Where a meaning is, the header as written, and its bare name; `currency`, `unit`, `words` are what it adds."""

    place: int
    title: str
    name: str
    currency: str = ""
    unit: str = ""
    words: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BillingColumns:
    """The columns of a billing table by meaning, and how wide its header is."""

    at: Mapping[str, Column]
    width: int

    def has(self, *fields: str) -> bool:
        """Whether the table has one of these."""
        return any(field in self.at for field in fields)

    def texts(self, cells: Sequence[str]) -> dict[str, str]:
        """A row's cells by meaning, every meaning there; empty where the table or the row lacks it."""
        texts, many = dict.fromkeys(FIELDS, ""), len(cells)
        for field, column in self.at.items():
            if column.place < many:
                texts[field] = cells[column.place]
        return texts

    def title(self, field: str) -> str:
        """The header as written, for messages."""
        column = self.at.get(field)
        return column.title if column else field

    @property
    def currency(self) -> str:
        """The one currency that headers of amounts name."""
        named = {self.at[field].currency for field in ("amount", "gross") if field in self.at} - {""}
        return next(iter(named)) if len(named) == 1 else ""

    @property
    def unit(self) -> str:
        """The unit that the quantity's header implies."""
        quantity = self.at.get("quantity")
        return (quantity.unit or _UNIT_NAMES.get(quantity.name, "")) if quantity else ""

    @property
    def end_is_inclusive(self) -> bool | None:
        """What the end column's header says of its last day."""
        words = self.at["end"].words if "end" in self.at else frozenset()
        return True if words & _INCLUSIVE else False if words & _EXCLUSIVE else None


def find_billing_columns(headers: Sequence[str]) -> BillingColumns:
    """Each meaning's best header; a header is used once. `total` beside `tax` without a net amount is gross."""
    choices = [choice for place, header in enumerate(headers) for choice in _choices(place, header)]
    choices.sort(key=lambda choice: choice[:2])
    at: dict[str, Column] = {}
    used: set[int] = set()
    for _, _, field, column in choices:
        if field not in at and column.place not in used:
            at[field] = column
            used.add(column.place)
    amount = at.get("amount")
    if amount and "tax" in at and "gross" not in at and amount.name in _MAY_BE_GROSS and not amount.words & _NET:
        at["gross"] = at.pop("amount")
    for stand_in, field in (("tenant_id", "tenant"), ("project", "tenant")):
        if field not in at and stand_in in at:
            at[field] = at.pop(stand_in)
    return BillingColumns(at, len(headers))


def is_billing_header(cells: Sequence[str]) -> bool:
    """Whether a row can be a billing table's header: an amount, who it is for, and something more."""
    columns = find_billing_columns(cells)
    return columns.has("amount", "gross") and columns.has("tenant", "invoice_id") and len(columns.at) >= 3


def _choices(place: int, header: str) -> list[tuple[int, int, str, Column]]:
    inside = [part.strip() for part in _BRACKETS.findall(header)]
    name, words = (
        _bare(_BRACKETS.sub(" ", header)),
        frozenset(word for part in inside for word in _bare(part).split("_")),
    )
    if "%" in header or not name:
        return []
    currency = next((code for code in (*map(currency_code, inside), _sign(header)) if code), "")
    name, words, currency = _without_extras(name, words, currency)
    fields = list(_FIELDS.get(name, ()))
    unit = next((part for part in inside if part and not currency_code(part)), "") if "quantity" in fields else ""
    column = Column(place, header, name, currency, unit, words)
    is_gross = "amount" in fields and bool(words & _GROSS)
    return [(_RANK[field, name], place, "gross" if is_gross else field, column) for field in fields]


def _without_extras(name: str, words: frozenset[str], currency: str) -> tuple[str, frozenset[str], str]:
    """A name without a currency code or a word such as `inclusive` at its ends, unless it is a name as it stands."""
    while name not in _FIELDS and "_" in name:
        head, _, last = name.rpartition("_")
        first, _, tail = name.partition("_")
        if last.upper() in CODES and _is_money(head.removesuffix("_in")):
            name, currency = head.removesuffix("_in"), currency or last.upper()
        elif first.upper() in CODES and _is_money(tail):
            name, currency = tail, currency or first.upper()
        elif last in _INCLUSIVE | _EXCLUSIVE | _NET | _GROSS | {"utc", "in"}:
            name, words = head, words | {last}
        else:
            break
    return name, words, currency


def _is_money(name: str) -> bool:
    return any(field in _MONEY for field in _FIELDS.get(name, ()))


def _sign(header: str) -> str:
    found = re.search(r"(?:US|C|CA|A|AU|HK|NZ|S)?\$|[€£¥₹₩]", header)
    return currency_code(found[0]) if found else ""


def _bare(text: str) -> str:
    split = _WORD_EDGE.sub("_", text)
    return _NOT_WORD.sub("_", split.casefold().translate(_UMLAUTS)).strip("_")
