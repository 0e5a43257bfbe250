"""What the benchmarks share: a broker and a home of their own, the events of a web log, and how results are shown."""

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from braid import Source, View, count, sum_, tumbling
from braid.infra import brokers
from braid.infra.services.service import free_port
from braid.runtime.settings import Settings

REQUESTS = Source(
    name="requests", kafka_topic="requests", event_time="time",
    schema="id string, time timestamp, host string, url string, status int, bytes bigint",
)  # fmt: skip
WITH_IDS = replace(REQUESTS, event_id="id")
MEASURES = {"hits": count(), "volume": sum_("bytes")}
BY_PAGE = View(
    name="by_page", source=REQUESTS, keys=("url",), window=tumbling("1 minute"), measures=MEASURES
)  # fmt: skip
# What `from_json` is given where no Source is: a time is read faster from a text than within the schema.
FIELDS = "id string, time string, host string, url string, status int, bytes bigint"


@dataclass(frozen=True)
class ResultRow:
    """One line of a result: what was measured, its ratio to what it is compared with, and what was wanted."""

    what: str
    measured: str
    ratio: str = ""
    wanted: str = ""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="braid-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def settings_at(home: Path, **changed: Any) -> Settings:
    """The defaults, but for a home and what is changed."""
    return Settings(**{"home": str(home), **changed})


@contextmanager
def own_broker(home: Path) -> Iterator[Settings]:
    """Settings of a home with a broker of its own, on ports that are free."""
    settings = settings_at(home, kafka_port=free_port(), kafka_controller_port=free_port())
    cluster = brokers.embedded_cluster(settings)
    brokers.start(cluster)
    try:
        yield settings
    finally:
        brokers.stop(cluster)


def create_topic(settings: Settings, topic: str) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    admin = KafkaAdminClient(bootstrap_servers=settings.bootstrap)
    admin.create_topics([NewTopic(topic, num_partitions=3, replication_factor=1)])
    admin.close()


def parsed_stream(spark: Any, settings: Settings, topic: str) -> Any:
    """What one would write by hand: Kafka's records as columns."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", settings.bootstrap)
    raw = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    read = F.from_json(F.col("value").cast("string"), FIELDS)
    return raw.select(read.alias("e"), "timestamp").select("e.*", "timestamp")


def batches_after(query: Any, number: int) -> dict[int, dict[str, Any]]:
    """Batch -> what the engine reports of it, of the last hundred that read something and come after a number.

    As JSON: PySpark's own objects take a hundred calls into the JVM each, and seconds from what is measured.
    """
    found: dict[int, dict[str, Any]] = {}
    for report in reversed(query._jsq.recentProgress()):
        if report.batchId() <= number:
            break
        progress = json.loads(report.json())
        if progress["numInputRows"] > 0:
            found[progress["batchId"]] = progress
    return found


def bytes_on_disk(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files if file.is_file())


def jvm_memory(spark: Any) -> float:
    """The resident memory of Spark's driver, in GiB."""
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    return float(psutil.Process(pid).memory_info().rss / 2**30)


def heap_used(spark: Any) -> float:
    """What Spark's driver cannot let go of, in GiB: resident memory is not given back, and says little of growth."""
    jvm = spark.sparkContext._jvm
    jvm.System.gc()
    memory = jvm.java.lang.Runtime.getRuntime()
    return float((memory.totalMemory() - memory.freeMemory()) / 2**30)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]


def arguments(text: str | None, add: Callable[[argparse.ArgumentParser], None]) -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=text, formatter_class=formatter)
    add(parser)
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    return parser.parse_args()


def program(
    title: str,
    text: str | None,
    add: Callable[[argparse.ArgumentParser], None],
    measure: Callable[[Path, argparse.Namespace], tuple[list[ResultRow], dict[str, Any]]],
) -> None:
    """A benchmark as a command: reads its arguments, measures in a folder of its own, and shows what was found."""
    options = arguments(text, add)
    with scratch_folder() as folder:
        rows, details = measure(folder, options)
    show(title, rows, details, options.json)


def show(title: str, rows: Sequence[ResultRow], details: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"rows": [vars(row) for row in rows], **details}, indent=2))
        return
    table = Table("what", "measured", "ratio", "wanted", title=title)
    for row in rows:
        table.add_row(row.what, row.measured, row.ratio, row.wanted)
    Console().print(table)
