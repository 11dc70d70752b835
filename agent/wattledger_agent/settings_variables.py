"""Settings from the environment: lists may be written with commas, and a variable that is no setting is refused."""

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

_SERVICE_LINK = re.compile(r".*_(?:SERVICE_HOST=.*|SERVICE_PORT(?:_\w+)?=\d+|PORT=\w+://.*|PORT_\d+_\w+=.*)")
"""Variables that Kubernetes sets for a Service of the namespace whose name begins like ours."""


class UnknownVariable(ValueError):
    """A variable that begins like ours and is no setting: one that was meant would be left out in silence."""


def variable_names(settings_cls: type[BaseSettings]) -> dict[str, tuple[str, ...]]:
    """Each variable that is a setting, with the path of that setting; a whole group in one variable too."""
    prefix, between = settings_cls.model_config["env_prefix"], settings_cls.model_config["env_nested_delimiter"]
    found: dict[str, tuple[str, ...]] = {}
    for name, field in settings_cls.model_fields.items():
        if field.validation_alias is not None:
            continue
        found[f"{prefix}{name}".upper()] = (name,)
        if isinstance(group := field.annotation, type) and issubclass(group, BaseModel):
            for inner in group.model_fields:
                found[f"{prefix}{name}{between}{inner}".upper()] = (name, inner)
    return found


def unknown_variables(given: Mapping[str, str | None], known: Mapping[str, object], prefix: str) -> list[str]:
    """A sentence for each variable that begins like ours and is no setting."""
    said = []
    for name in sorted(given):
        upper = name.upper()
        if not upper.startswith(prefix) or upper in known:
            continue
        if _SERVICE_LINK.fullmatch(f"{upper}={given[name]}"):
            continue
        near = difflib.get_close_matches(upper[len(prefix) :], (one[len(prefix) :] for one in known), 1, 0.8)
        said.append(f"{upper} is no setting" + (f" (is {prefix}{near[0]} meant?)" if near else ""))
    return said


class Variables(EnvSettingsSource):
    """The environment. Raises UnknownVariable."""

    def __call__(self) -> dict[str, Any]:
        known = variable_names(self.settings_cls)
        said = unknown_variables(self.env_vars, known, self.env_prefix.upper())
        if said:
            raise UnknownVariable("; ".join(said))
        return super().__call__()

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """JSON, or a list with commas. What is neither is passed on, and refused with its name by whoever checks it."""
        try:
            decoded = json.loads(value)
        except ValueError:
            decoded = value
        if get_origin(field.annotation) is tuple and not isinstance(decoded, list):
            if value.lstrip().startswith(("[", "{")):
                return value
            return [part.strip() for part in value.split(",") if part.strip()]
        return decoded
