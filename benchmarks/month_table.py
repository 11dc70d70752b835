"""The results of a month as Markdown."""

from typing import Any

Table = list[list[object]]


def markdown(results: dict[str, Any]) -> str:
    """Machine, what was made, and one table for each kind of measurement."""
    month, machine = results["month"], results["machine"]
    lines = [
        f"{machine['cpus']} cores, {machine['cpu']}, {machine['memory_gib']} GiB, Python {machine['python']}, chDB"
        f" {machine['chdb']}, load {machine['load_1min']} at the start.",
        "",
        f"{month['gpus']} GPUs, {month['days']} days, {month['tenants']} tenants, batches of {month['flush_s']} s; made"
        f" in {month['made']['seconds']:.0f} s ({month['made']['cpu_seconds']:.0f} CPU s): "
        + ", ".join(f"{name} {t['rows']:,} ({t['mb']:,} MB)" for name, t in sorted(month["tables"].items()))
        + f". Peak memory {month['peak_mb']:,} MB.",
        "",
        *_grid(
            ["question", "rows", "fetched, s", "engine, s", "facts FINAL, s", "×", "facts plain, s", "×"],
            [
                [q["question"], f"{q['rows']:,}", q["fetched_s"], q["engine"]["seconds"], q["final_s"],
                 q["final_ratio"], q["plain_s"], q["plain_ratio"]]
                for q in month["questions"]
            ],
        ),
        *_refresh(month),
    ]  # fmt: skip
    if "sink" in month:
        lines += _sink(month)
    if results["growth"]:
        lines += _growth([*results["growth"], month])
    if "files" in results:
        lines += _files(results["files"])
    return "\n".join(lines) + "\n"


def _grid(head: list[str], rows: Table) -> list[str]:
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(map(str, row)) + " |" for row in rows),
        "",
    ]


def _refresh(month: dict[str, Any]) -> list[str]:
    first, then = month["first_build"], month["refresh"]
    read = f"{then['rows_read']:,} rows read for {then['rows_new']:,} new"
    rebuild = then["rebuild_of_margin_alone"]
    return _grid(
        ["bringing the views up", "s", "CPU s", ""],
        [
            ["first build, every hour", first["seconds"], first["cpu_seconds"], f"peak {first['peak_mb']:,} MB"],
            ["after an hour's new rows", *then["after_an_hour"].values(), read],
            ["nothing new", *then["nothing_new"].values(), "six old hours a view"],
            ["margin alone", then["by_view"]["tenant_margin_hour"], "", "nothing new"],
            ["margin computed over, FINAL", *rebuild.values(), f"× {then['rebuild_ratio']} of it"],
        ],
    )


def _sink(month: dict[str, Any]) -> list[str]:
    return _grid(
        ["insert", "rows a take", "rows/s", "plain, rows/s", "time ×", "rows/CPU s", "plain, rows/CPU s", "CPU ×"],
        [
            [s["table"], f"{s['rows_a_take']:,}", f"{s['rows_per_s']:,}", f"{s['plain_rows_per_s']:,}", s["ratio"],
             f"{s['rows_per_cpu_s']:,}", f"{s['plain_rows_per_cpu_s']:,}", s["cpu_ratio"]]
            for s in month["sink"]
        ],
    )  # fmt: skip


def _growth(growth: list[dict[str, Any]]) -> list[str]:
    return _grid(
        ["flush, s", "days", "cost rows", "margin, s", "FINAL, s", "first build, s", "after an hour, s", "nothing, s"],
        [
            [g["flush_s"], g["days"], f"{g['tables']['cost_rows']['rows']:,}", g["questions"][0]["fetched_s"],
             g["questions"][0]["final_s"], g["first_build"]["seconds"], g["refresh"]["after_an_hour"]["seconds"],
             g["refresh"]["nothing_new"]["seconds"]]
            for g in growth
        ],
    )  # fmt: skip


def _files(files: dict[str, Any]) -> list[str]:
    return _grid(
        [f"over files, {files['rows']:,} runs", "s", "peak, MB", "time × pandas"],
        [
            [name, files[name]["seconds"], files[name]["peak_mb"],
             round(files[name]["seconds"] / files["pandas"]["seconds"], 2)]
            for name in ("audit", "statement", "pandas")
        ],
    )  # fmt: skip
