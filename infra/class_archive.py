"""Makes the archive of Java classes from which every Spark of this installation starts warm.

A JVM that starts from such an archive (class data sharing) does not read, check and link ten thousand classes anew.
It is made by a small run of everything that a first command uses. A JVM itself finds out whether an archive fits its
version and its jars, and goes on without one that does not: nothing depends on it.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from braid.infra.preflight import java_command
from braid.runtime.installation import class_archive, jars
from braid.runtime.settings import current_settings
from braid.runtime.spark import spark_session

LONGEST = 300


def stamp() -> str:
    """What an archive belongs to: a JVM, and jars in their place, with their sizes."""
    said = subprocess.run([java_command(), "-version"], capture_output=True, text=True, check=False).stderr
    return repr((said, [(str(jar), jar.stat().st_size) for jar in jars("spark")]))


def is_made() -> bool:
    mark = _mark()
    return class_archive().is_file() and mark.is_file() and mark.read_text() == stamp()


def make() -> str | None:
    """None when it is there; otherwise why it is not, which stops nobody."""
    archive = class_archive()
    archive.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        draft = Path(folder) / archive.name
        options = os.environ | {"JAVA_TOOL_OPTIONS": f"-XX:ArchiveClassesAtExit={draft} -Xlog:cds*=off"}
        command = [sys.executable, "-m", "braid.infra.class_archive", folder]
        try:
            done = subprocess.run(
                command, env=options, cwd=folder, capture_output=True, text=True, timeout=LONGEST, check=False
            )
        except subprocess.TimeoutExpired:
            return f"the run that makes it took longer than {LONGEST} s"
        if done.returncode != 0 or not draft.is_file():
            return (done.stderr.strip().splitlines() or ["the JVM wrote none"])[-1]
        draft.replace(archive)
    _mark().write_text(stamp())
    return None


def run(folder: str) -> None:
    """What a first command does: Delta written, read and replaced, and a stream with state from files to a table."""
    session = spark_session(
        current_settings().model_copy(update={"home": folder, "spark_master": "local[2]"})
    )
    events = session.range(200).selectExpr(
        "id", "id % 5 as key", "timestamp_seconds(id) as time", "date'2024-01-01' as day"
    )
    table = f"{folder}/table"
    events.write.format("delta").partitionBy("day").save(table)
    events.write.format("delta").mode("append").option("userMetadata", "{}").save(table)
    part = events.write.format("delta").mode("overwrite").option("replaceWhere", "day = date'2024-01-01'")
    part.save(table)
    states = session.read.format("delta").load(table).groupBy("key", "day").agg({"id": "sum", "*": "count"})
    states.selectExpr("*").orderBy("key").collect()
    events.selectExpr("to_json(struct(*)) as value").write.text(f"{folder}/lines")
    lines = session.readStream.schema("value string").text(f"{folder}/lines")
    parsed = lines.selectExpr("from_json(value, 'id bigint, key bigint, time timestamp') as e").select("e.*")
    once = parsed.withWatermark("time", "1 hour").dropDuplicatesWithinWatermark(["id"])
    stream = once.writeStream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    stream.foreachBatch(_append_to(f"{folder}/copy")).start().awaitTermination(LONGEST)
    end(session)


def _append_to(table: str) -> Callable[[DataFrame, int], None]:
    return lambda rows, _: rows.write.format("delta").mode("append").save(table)


def end(session: SparkSession) -> None:
    """Stops Spark and waits for its JVM, which writes the archive as the last thing that it does."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(LONGEST)


def _mark() -> Path:
    return class_archive().with_suffix(".made")


if __name__ == "__main__":
    run(sys.argv[1])
