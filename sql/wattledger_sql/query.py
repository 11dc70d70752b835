"""Named queries: one `.sql` file each, in the package. Owns finding them; running them is the caller's."""

from importlib.resources import files
from importlib.resources.abc import Traversable

LAW_PREFIX = "laws/"


class UnknownQuery(KeyError):
    """No query has that name; the message lists those there are."""

    def __str__(self) -> str:
        return str(self.args[0])


def query(name: str) -> str:
    """Text of the named query, such as `job_cost` or `laws/device_time`, without a final semicolon.

    A leading comment says what it answers and which parameters it takes, as `{name:Type}`: pass them to
    `client.query(..., parameters=...)`. Raises `UnknownQuery`.
    """
    found = _all()
    if name not in found:
        raise UnknownQuery(f"no query named {name!r}: there are {', '.join(sorted(found))}")
    return found[name].read_text(encoding="utf-8").strip()


def query_names() -> list[str]:
    """Names of every query of the package, sorted; those of laws start with `laws/`."""
    return sorted(_all())


def _all() -> dict[str, Traversable]:
    root = files("wattledger_sql").joinpath("queries")
    found = {entry.name.removesuffix(".sql"): entry for entry in root.iterdir() if entry.name.endswith(".sql")}
    for entry in root.joinpath("laws").iterdir():
        if entry.name.endswith(".sql"):
            found[LAW_PREFIX + entry.name.removesuffix(".sql")] = entry
    return found
