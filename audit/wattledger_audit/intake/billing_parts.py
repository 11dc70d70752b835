"""A cloud's month in several files: parts of one delivery add up, and the same rows in a later file are that delivery
again. Tells the two apart by what rows are about (resource, operation, hour), which a line's own words do not say.

Files of one delivery that have hardly a row in common are parts: each becomes a delivery of its own, and what came
before it goes with it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

from wattledger_audit.intake import billing_aws_cur, billing_azure, billing_focus, billing_gcp
from wattledger_audit.intake.billing_cloud import Columns, open_columns
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BillingLine
from wattledger_audit.intake.source import Source

SAME_ONE_IN = 10
"""Of so many rows of the smaller file one has to stand in the other for it to be a redelivery."""
_ABOUT: Mapping[str, tuple[frozenset[str], tuple[str, ...]]] = {
    billing_aws_cur.IMPORTERS[0].name: (billing_aws_cur.NEEDED, (
        "line_item_usage_account_id", "line_item_line_item_type", "line_item_product_code", "line_item_usage_type",
        "line_item_operation", "line_item_availability_zone", "line_item_resource_id",
        "line_item_line_item_description",
    )),
    billing_focus.IMPORTERS[0].name: (billing_focus.NEEDED, (
        "sub_account_id", "resource_id", "sku_id", "sku_price_id", "charge_category", "charge_class",
        "charge_description", "region_id", "availability_zone",
    )),
    billing_azure.IMPORTERS[0].name: (billing_azure.NEEDED, (
        "subscription_id", "subscription_guid", "resource_id", "instance_id", "meter_id", "charge_type",
        "consumed_service",
    )),
    billing_gcp.IMPORTERS[0].name: (billing_gcp.NEEDED, (
        "project_id", "sku_id", "labels", "resource_name", "resource_global_name", "cost_type", "location_location",
        "location_region",
    )),
}  # fmt: skip
"""By format: the columns that its importer knows it by, and those that say what a row is about, beside its time, and
not what it costs."""
_Row = tuple[bytes, int, int]

Files = Sequence[tuple[str, list[BillingLine]]]


def parts_told_apart(
    files: Files, formats: Mapping[str, tuple[str, Source]], options: ReadOptions
) -> list[tuple[str, list[BillingLine]]]:
    """The files with the deliveries of parts made different. `formats` is each file's format and source by its name;
    only files that share a delivery with another are read once more."""
    sharing: dict[str, list[int]] = {}
    for number, (name, lines) in enumerate(files):
        if formats[name][0] in _ABOUT:
            for delivery in {line.delivery for line in lines}:
                sharing.setdefault(delivery, []).append(number)
    shared = {delivery: numbers for delivery, numbers in sharing.items() if len(numbers) > 1}
    about = _about(files, formats, sorted({number for numbers in shared.values() for number in numbers}), options)
    names: dict[tuple[int, str], str] = {}
    for delivery, numbers in shared.items():
        lines_of = {number: [line for line in files[number][1] if line.delivery == delivery] for number in numbers}
        rows = {
            number: {(about[number].get(line.line, b""), line.start_us, line.end_us) for line in lines}
            for number, lines in lines_of.items()
        }
        rank = {number: max(line.delivery_rank for line in lines) for number, lines in lines_of.items()}
        newest_first = sorted(numbers, key=lambda number: (rank[number], number), reverse=True)
        for number, counting in _replaced_by(rows, newest_first).items():
            if counting != newest_first[0]:
                names[number, delivery] = f"{delivery}#{counting}"
    return [
        (name, [line._replace(delivery=names.get((number, line.delivery), line.delivery)) for line in lines])
        for number, (name, lines) in enumerate(files)
    ]


def _about(
    files: Files, formats: Mapping[str, tuple[str, Source]], numbers: Sequence[int], options: ReadOptions
) -> dict[int, dict[int, bytes]]:
    """What each row of these files is about, as a digest, by file and line: by the columns that all files of its
    format have."""
    opened = {number: _columns(*formats[files[number][0]], options) for number in numbers}
    found: dict[int, dict[int, bytes]] = {}
    for number in numbers:
        format_name, source = formats[files[number][0]]
        alike = [opened[other] for other in numbers if formats[files[other][0]][0] == format_name]
        needed, names = _ABOUT[format_name]
        table, columns = open_columns(source, options, needed)
        cells = [columns.cell(name) for name in names if all(other.has(name) for other in alike)]
        found[number] = {
            row.line: blake2b("\x1f".join(cell(row.cells) for cell in cells).encode(), digest_size=12).digest()
            for row in table.rows
        }
    return found


def _columns(format_name: str, source: Source, options: ReadOptions) -> Columns:
    return open_columns(source, options, _ABOUT[format_name][0])[1]


def _replaced_by(rows: Mapping[int, set[_Row]], newest_first: Sequence[int]) -> dict[int, int]:
    """Each file's counting file: itself for a part, the newer one that has most of its rows for one that came again."""
    counting: dict[int, int] = {}
    holders: dict[_Row, list[int]] = {}
    for number in newest_first:
        shared = Counter(newer for row in rows[number] for newer in holders.get(row, ()))
        same = [
            newer for newer, count in shared.most_common()
            if count * SAME_ONE_IN >= min(len(rows[number]), len(rows[newer]))
        ]  # fmt: skip
        counting[number] = same[0] if same else number
        if not same:
            for row in rows[number]:
                holders.setdefault(row, []).append(number)
    return counting


def names_by(taken: Iterable[tuple[str, Source]]) -> dict[str, tuple[str, Source]]:
    """Format and source by the file's name, from `(format, source)`."""
    return {source.name: (format_name, source) for format_name, source in taken}
