"""Identities: a hash of what a thing is about. Nothing in an id is random or wall-clock."""

from hashlib import blake2b

_PLAIN = blake2b(digest_size=16)
"""Never fed: a copy of it is made faster than another."""


def digest(*parts: str | int) -> str:
    """128-bit hex id of the parts in order.

    Parts are joined by NUL; parts that contain one are length-prefixed under another hash, so `("a", "b:c")` and
    `("a:b", "c")` always differ (mozilla/fxa#21129 is the kind).
    """
    text = "\0".join(map(str, parts))
    if text.count("\0") == len(parts) - 1:
        plain = _PLAIN.copy()
        plain.update(text.encode())
        return plain.hexdigest()
    escaped = "".join(f"{len(part)}:{part}" for part in map(str, parts))
    return blake2b(escaped.encode(), digest_size=16, person=b"escaped").hexdigest()
