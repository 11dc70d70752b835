"""Where the packages lie and what their modules import: shared by the architecture tests."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "wattledger_agent": ROOT / "agent" / "wattledger_agent",
    "wattledger_audit": ROOT / "audit" / "wattledger_audit",
    "wattledger_core": ROOT / "streams" / "wattledger_core",
    "wattledger_schemas": ROOT / "schemas" / "wattledger_schemas",
    "wattledger_sql": ROOT / "sql" / "wattledger_sql",
    "wattledger_streams": ROOT / "streams" / "wattledger_streams",
}


def modules(package: str) -> list[Path]:
    """Its Python files; a package without any is a wrong path here."""
    found = sorted(PACKAGES[package].rglob("*.py"))
    assert found, f"no module in {PACKAGES[package]}"
    return found


def every_module() -> list[Path]:
    return [path for package in PACKAGES for path in modules(package)]


def short_name(path: Path) -> str:
    """`wattledger_core/units.py`: the package's name and the path inside it."""
    package = next(name for name, folder in PACKAGES.items() if path.is_relative_to(folder))
    return f"{package}/{path.relative_to(PACKAGES[package])}"


def imported(source: str) -> set[str]:
    """The top-level modules that a source imports, wherever in it the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def names_used(source: str) -> set[str]:
    """Every name, attribute and imported name of a source."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
    return found
