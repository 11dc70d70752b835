"""A Confluent-compatible schema registry over HTTP: ids for our schemas, schemas for its ids."""

import json
from typing import Any

import httpx
import stamina


class NoSuchSchema(LookupError):
    """The registry has no schema of that id; everything else that it may say is its own trouble, not the record's."""


def _passes(error: Exception) -> bool:
    """Whether trying again may help: no answer, or the registry's own trouble."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.is_server_error
    return isinstance(error, httpx.TransportError)


class Registry:
    """Registers and fetches with retries while the registry does not answer; refusals raise at once."""

    def __init__(self, url: str, timeout_s: float = 10.0) -> None:
        self._client = httpx.Client(base_url=url.rstrip("/"), timeout=timeout_s)

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Id of a schema under a subject; registering the same again gives the same id."""
        answer = self._call("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema)})
        return int(answer["id"])

    def schema(self, schema_id: int) -> Any:
        """The schema of an id, a record or any other. Raises NoSuchSchema, and httpx.HTTPError for any trouble."""
        try:
            text: str = self._call("GET", f"/schemas/ids/{schema_id}", None)["schema"]
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise
            raise NoSuchSchema(f"schema id {schema_id}: the registry answers {error.response.status_code}") from error
        try:
            return json.loads(text)
        except ValueError:
            return text  # Protobuf and others have schemas that are no JSON

    def close(self) -> None:
        self._client.close()

    @stamina.retry(on=_passes, attempts=8, timeout=60)
    def _call(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        response = self._client.request(method, path, json=body)
        response.raise_for_status()
        answer = response.json()
        assert isinstance(answer, dict)
        return answer
