"""The few questions that are asked of a local Airflow through its REST API."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from braid.infra.airflow.files import USER, LocalAirflow
from braid.infra.services.service import open_local

# Seconds for a sign of life, and for an answer: Airflow itself waits a minute for its SQLite database.
LIFE, TIMEOUT = 10.0, 90.0


@dataclass(frozen=True)
class Api:
    """Raises OSError where Airflow does not answer, or not as asked."""

    airflow: LocalAirflow

    def health(self) -> dict[str, str | None]:
        """The state of each part that beats; empty where nobody answers."""
        try:
            answer = self._send("GET", "/api/v2/monitor/health", None, token=None, timeout=LIFE)
        except (OSError, ValueError):
            return {}
        return {name: part.get("status") for name, part in answer.items()}

    def dags(self) -> dict[str, str]:
        """The DAGs that have been read, and from which file each."""
        return {dag["dag_id"]: dag["relative_fileloc"] for dag in self.ask("GET", "/dags?limit=100")["dags"]}

    def import_errors(self) -> dict[str, str]:
        """The files that could not be read, and why."""
        errors = self.ask("GET", "/importErrors?limit=100")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in errors}

    def create_pool(self, name: str, slots: int, description: str) -> None:
        """Makes the pool; one that is there keeps the size that somebody gave it."""
        body = {"name": name, "slots": slots, "description": description, "include_deferred": False}
        try:
            self.ask("POST", "/pools", body)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise

    def unpause(self, dag: str) -> None:
        self.ask("PATCH", f"/dags/{dag}", {"is_paused": False})

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What the API says at a path such as /dags."""
        return self._send(method, f"/api/v2{path}", body, self._token)

    @cached_property
    def _token(self) -> str:
        body = {"username": USER, "password": self.airflow.password}
        return str(self._send("POST", "/auth/token", body, token=None)["access_token"])

    def _send(self, method: str, path: str, body: object, token: str | None, timeout: float = TIMEOUT) -> Any:
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.airflow.address + path, data, headers, method=method)
        with open_local(request, timeout=timeout) as answer:
            return json.loads(answer.read())
