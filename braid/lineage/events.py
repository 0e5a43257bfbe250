"""OpenLineage's run events as plain values: a job, what it reads and writes, and how a run of it went."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

EventType = Literal["START", "COMPLETE", "FAIL", "ABORT"]
Facets = Mapping[str, Mapping[str, Any]]

SPEC = "https://openlineage.io/spec"
# Their versions are those of the specification that the events follow.
RUN_EVENT = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
STANDARD = {
    "schema": ("1-2-0", "SchemaDatasetFacet"),
    "inputStatistics": ("1-0-0", "InputStatisticsInputDatasetFacet"),
    "outputStatistics": ("1-0-2", "OutputStatisticsOutputDatasetFacet"),
    "jobType": ("2-0-4", "JobTypeJobFacet"),
    "parent": ("1-2-0", "ParentRunFacet"),
    "errorMessage": ("1-0-1", "ErrorMessageRunFacet"),
}


@dataclass(frozen=True)
class LineageDataset:
    """A topic, a folder or a table, with its columns (name -> type, or nothing where it is Braid's own)."""

    namespace: str
    name: str
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LineageJob:
    """What runs again and again under one name: it reads the inputs and writes the outputs."""

    name: str
    kind: Literal["BATCH", "STREAMING"]
    inputs: tuple[LineageDataset, ...]
    outputs: tuple[LineageDataset, ...]


@dataclass(frozen=True)
class ParentRun:
    """The run that started this one, such as a task of Airflow."""

    namespace: str
    job: str
    run: str


@dataclass(frozen=True)
class Told:
    """What is known of a run at its end: rows, and facets of Braid's own."""

    rows_read: int | None = None
    rows_written: int | None = None
    facets: Facets = field(default_factory=dict)


@dataclass(frozen=True)
class Teller:
    """Who tells of runs: where its jobs belong, and which Braid it is."""

    namespace: str
    producer: str
    parent: ParentRun | None = None

    def event(
        self,
        kind: EventType,
        at: datetime,
        run: str,
        job: LineageJob,
        told: Told | None = None,
        error: BaseException | None = None,
    ) -> dict[str, Any]:
        """One event, whole: a receiver needs no other to understand it."""
        told = told or Told()
        facets = {name: self._own(name, value) for name, value in told.facets.items()}
        if self.parent is not None:
            of = {"namespace": self.parent.namespace, "name": self.parent.job}
            facets["parent"] = self._facet("parent", run={"runId": self.parent.run}, job=of)
        if error is not None:
            said = str(error) or type(error).__name__
            facets["errorMessage"] = self._facet("errorMessage", message=said, programmingLanguage="PYTHON")
        kinds = self._facet("jobType", processingType=job.kind, integration="BRAID", jobType="JOB")
        return {
            "eventType": kind,
            "eventTime": at.isoformat(),
            "run": {"runId": run, "facets": facets},
            "job": {"namespace": self.namespace, "name": job.name, "facets": {"jobType": kinds}},
            "inputs": [
                self._dataset(one, "inputFacets", self._rows("inputStatistics", told.rows_read))
                for one in job.inputs
            ],
            "outputs": [
                self._dataset(one, "outputFacets", self._rows("outputStatistics", told.rows_written))
                for one in job.outputs
            ],
            "producer": self.producer,
            "schemaURL": RUN_EVENT,
        }

    def _dataset(self, one: LineageDataset, part: str, statistics: dict[str, Any]) -> dict[str, Any]:
        facets = {"schema": self._facet("schema", fields=list(_fields(one.columns)))} if one.columns else {}
        return {"namespace": one.namespace, "name": one.name, "facets": facets, part: statistics}

    def _rows(self, name: str, rows: int | None) -> dict[str, Any]:
        return {} if rows is None else {name: self._facet(name, rowCount=rows)}

    def _facet(self, name: str, **values: Any) -> dict[str, Any]:
        version, schema = STANDARD[name]
        url = f"{SPEC}/facets/{version}/{schema}.json#/$defs/{schema}"
        return {"_producer": self.producer, "_schemaURL": url, **values}

    def _own(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"_producer": self.producer, "_schemaURL": f"urn:braid:facet:{name}", **values}


def _fields(columns: Mapping[str, str]) -> Iterable[dict[str, str]]:
    return ({"name": name, **({"type": type_} if type_ else {})} for name, type_ in columns.items())
