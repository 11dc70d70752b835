"""Data and programs inside the page: JSON that no text can leave, and the policy that lets nothing else run or load."""

import base64
import hashlib
import json
from collections.abc import Iterable

from markupsafe import Markup

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def script_json(value: object) -> Markup:
    """JSON for a `<script type="application/json">`: ASCII, with `<`, `>` and `&` escaped; parses to the same value."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    for plain, escaped in _ESCAPES.items():
        text = text.replace(plain, escaped)
    return Markup(text)


def source_hash(text: str) -> str:
    """`'sha256-…'` of an inline style or script, as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy(styles: Iterable[str], scripts: Iterable[str]) -> str:
    """A content security policy under which only these inline sources work and nothing is fetched."""
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src {' '.join(source_hash(text) for text in styles)}",
            f"script-src {' '.join(source_hash(text) for text in scripts)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
