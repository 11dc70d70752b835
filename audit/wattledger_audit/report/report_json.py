"""`report.json`: the report itself, written and read back."""

import json
from pathlib import Path

from pydantic import ValidationError

from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.report.model import Report


def write_report_json(report: Report, path: Path) -> Path:
    """Write it as UTF-8 with LF, fields in the model's order. The same report gives the same bytes."""
    text = json.dumps(report.model_dump(mode="json"), ensure_ascii=False, indent=1, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() + b"\n")
    return path


def read_report_json(path: Path) -> Report:
    """The report in the file. Raises InputRefused when it is none, saying where it differs."""
    try:
        return Report.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputRefused(f"{path.name}: can't be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputRefused(
            f"{path.name}: is no report of this version: {where}: {first['msg']}; write it again: `wattledger audit`"
        ) from error
