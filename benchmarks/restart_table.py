"""Results of the restarts as Markdown."""

from typing import Any


def markdown(results: dict[str, Any]) -> str:
    """One row a restart."""
    machine = results["machine"]
    lines = [
        f"{machine['cpus']} cores, Python {machine['python']}, load {machine['load_1min']} at the start; importing: "
        + ", ".join(f"{name} {seconds} s" for name, seconds in results["imports_s"].items())
        + ".",
    ]
    for run in results["runs"]:
        history = ", ".join(f"{topic} {count:,}" for topic, count in run["records"].items())
        lines += [
            "",
            f"Session timeout {run['session_timeout_s']:g} s; history: {history}. Seconds after the kill:",
            "",
            "| worker | process started | group joined | folded again | records | endpoint | first row |",
            "|---|---|---|---|---|---|---|",
        ]
        for one in run["restarts"]:
            cells = (one["started_s"], one["joined_s"], one["rebuilt_s"], one["rebuilt"], one["endpoint_s"])
            shown = " | ".join("" if cell is None else str(cell) for cell in cells)
            lines.append(f"| {one['worker']} | {shown} | **{one['first_s']}** |")
    return "\n".join(lines) + "\n"
