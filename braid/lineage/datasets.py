"""What Braid reads and writes as datasets of OpenLineage: topics, folders, logs, tables of a view, served views."""

from pathlib import Path

from braid.define.derived.base import Derived
from braid.define.source import Source
from braid.define.view import View
from braid.deploy.versions import Version
from braid.lineage.events import LineageDataset
from braid.log.derived import DerivedPlaces
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.view_tables import ViewTables, base_columns, tail_columns


def origin_of(source: Source, settings: Settings) -> LineageDataset:
    """Where its records come from. A cluster of brokers is named by the first, as OpenLineage does."""
    if source.kafka_topic is not None:
        broker = settings.bootstrap.partition(",")[0]
        return LineageDataset(f"kafka://{broker}", source.kafka_topic, source.columns)
    if isinstance(source, Derived):
        return _placed(DerivedPlaces(Log(source, settings)).events, dict(source.columns))
    folder = str(source.files).rpartition("/")[0] or "."
    return _placed(folder if "://" in folder else str(Path(folder).resolve()), dict(source.columns))


def log_of(source: Source, settings: Settings) -> LineageDataset:
    return _placed(Log(source, settings).table, dict(source.columns))


def base_of(version: Version, settings: Settings) -> LineageDataset:
    return _placed(ViewTables.of(settings, version).base, _columns(version.view, base_columns(version.view)))


def tail_of(version: Version, settings: Settings) -> LineageDataset:
    return _placed(ViewTables.of(settings, version).tail, _columns(version.view, tail_columns(version.view)))


def served(view: View, settings: Settings) -> LineageDataset:
    """The view that people ask, whichever version it is."""
    return _placed(settings.location("views", view.name), _columns(view, (*view.keys, *view.measures)))


def _columns(view: View, names: tuple[str, ...]) -> dict[str, str]:
    return {name: view.source.columns.get(name, "") for name in names}


def _placed(location: str, columns: dict[str, str]) -> LineageDataset:
    """As OpenLineage names places: files of a machine, or a bucket and a path in it."""
    scheme, is_uri, rest = location.partition("://")
    if not is_uri or scheme == "file":
        return LineageDataset("file", rest if is_uri else location, columns)
    bucket, _, path = rest.partition("/")
    return LineageDataset(f"{'s3' if scheme == 's3a' else scheme}://{bucket}", path, columns)
