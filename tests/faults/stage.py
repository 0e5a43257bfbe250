"""What a fault is tried on: two views of one source, and `braid` commands as processes that can be killed."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import psutil

from braid.define.loading import load_definitions
from braid.define.source import Source
from braid.define.view import View
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.commits import TailCommit, described
from speed_layer.jobs.engine import stream
from tests.streams import MINUTE, NOON, recomputed, served, tables_of
from tests.waiting import until

BRAID = str(Path(sys.executable).with_name("braid"))
DEFINITIONS = """\
from dataclasses import replace
from braid import count, sum_
from braid.examples import weblog
requests = replace(weblog.requests, kafka_topic={topic!r})
page_traffic = replace(weblog.page_traffic, source=requests, measures={{"hits": count(), "bytes": sum_("bytes")}})
visits = replace(weblog.visits, source=requests, mode="kappa")
"""

# More than a slow machine needs for all that is tried: sending ends when that is done.
ENDLESS = 2_000_000
INTERRUPTED = 130

Victim = Literal["python", "jvm", "both"]


class Command:
    """A `braid` command in a process of its own; what it says on stderr is collected."""

    def __init__(self, *arguments: str, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [BRAID, *arguments], env=os.environ | environment, stderr=subprocess.PIPE, text=True, bufsize=1
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def wait_for(self, text: str) -> None:
        """Returns as soon as it says so; a process that ends without having said so is a failure."""
        until(lambda: text in self.said or self.process.poll() is not None)
        assert text in self.said, self.said

    def java(self) -> list[int]:
        """The JVMs that it has started."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child.pid for child in children if _name_of(child) == "java"]

    def kill(self, victim: Victim) -> None:
        """Kills the driver, its JVM as a machine that is out of memory does, or both as a container's end does."""
        assert self.process.poll() is None, self.said
        pids = self.java()
        assert len(pids) == 1, pids
        for pid in {"python": [self.process.pid], "jvm": pids, "both": [*pids, self.process.pid]}[victim]:
            os.kill(pid, signal.SIGKILL)
        assert self.ended() != 0

    def ended(self, patience: float = 120) -> int:
        """Its exit code, once it is gone and all it said has been read."""
        code = self.process.wait(patience)
        self._reader.join(patience)
        return code

    def stop(self) -> int:
        self.process.terminate()
        return self.ended()


def _name_of(process: psutil.Process) -> str:
    """Empty for one that has ended since it was seen, as the scripts do that start a JVM."""
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


@dataclass
class Stage:
    """A BRAID_HOME with its definitions, seen from the test's own session."""

    spark: Any
    settings: Settings
    environment: dict[str, str]
    commands: list[Command] = field(default_factory=list)

    @property
    def source(self) -> Source:
        return load_definitions(self.settings.definitions).sources["requests"]

    @property
    def views(self) -> tuple[View, ...]:
        return tuple(load_definitions(self.settings.definitions).views.values())

    def view(self, name: str) -> View:
        return load_definitions(self.settings.definitions).view(name)

    @property
    def log(self) -> Log:
        return Log(self.source, self.settings)

    def close(self) -> None:
        """What was started here does not outlive its test."""
        for command in self.commands:
            command.process.kill()
            command.ended()

    def run(self, *arguments: str, **environment: str) -> Command:
        self.commands.append(Command(*arguments, environment=self.environment | environment))
        return self.commands[-1]

    def accepted_ids(self) -> list[str]:
        rows = self.spark.read.format("delta").load(self.log.table).where("_error is null")
        return sorted(row.id for row in rows.select("id").collect())

    def in_step(self, view: View) -> bool:
        """Whether a reader of the view gets what the log says."""
        tail = Path(tables_of(self.settings, view).tail.removeprefix("file://"))
        return (tail / "_delta_log").is_dir() and states_of(self, view) == recomputed(
            self.spark, view, self.settings
        )

    def finish(self) -> None:
        """All that was sent is ingested and streamed, in the test's own session."""
        stream(self.spark, self.views, self.settings, sources=[self.source], only=True, once=True)


def send(stage: Stage, truth: Path, events: int, rate: int) -> Command:
    """The generator's nastiest setting; the answer to what was acknowledged is in the file in the end."""
    disorder = "--late 0.2 --duplicates 0.05 --malformed 0.03 --out-of-order 0.1"
    options = f"--topic {stage.source.kafka_topic} --events {events} --rate {rate} --truth {truth} {disorder}"
    return stage.run("produce", *options.split())


def true_ids(truth: Path) -> list[str]:
    return sorted(json.loads(truth.read_text())["ids"])


def states_of(stage: Stage, view: View, number: int = 1) -> Counter[Any]:
    return served(stage.spark, view, tables_of(stage.settings, view, number))


def batches_of(stage: Stage, view: View) -> Counter[tuple[str, int]]:
    """How often each batch was committed to the view's tail."""
    found = described(tables_of(stage.settings, view).tail, TailCommit.from_json)
    return Counter((commit.query, commit.batch) for _, commit in found if not commit.fold)


def has_batches(stage: Stage, view: View, number: int = 1) -> bool:
    """Whether so many batches are in the view's tail, which may not be there yet."""
    tail = tables_of(stage.settings, view).tail
    return Path(tail, "_delta_log").is_dir() and len(batches_of(stage, view)) >= number


def assert_exact(stage: Stage) -> None:
    """Each view says what its log says, and each of its batches was committed once."""
    for view in stage.views:
        assert states_of(stage, view) == recomputed(stage.spark, view, stage.settings), view.name
        assert [batch for batch, times in batches_of(stage, view).items() if times > 1] == [], view.name


def make_stage(spark: Any, folder: Path, **given: str) -> Stage:
    """A new one below a folder, with the settings that are given."""
    definitions = folder / "definitions.py"
    definitions.write_text(DEFINITIONS.format(topic=f"t-{uuid.uuid4().hex}"))
    chosen = {
        "home": str(folder / "home"),
        "definitions": str(definitions),
        "kafka_bootstrap": "127.0.0.1:1",
        "spark_master": "local[2]",
        "spark_memory": "1g",
    } | given
    environment = {f"BRAID_{name.upper()}": value for name, value in chosen.items()}
    return Stage(spark, Settings.model_validate(chosen), environment)


def some(number: int, minute: int) -> list[dict[str, Any]]:
    """Events around a minute after noon, of several days."""
    chance = random.Random(minute)
    return [
        {
            "id": f"{minute}-{n}",
            "time": NOON
            + minute * MINUTE
            - timedelta(seconds=chance.choice([1, 60, 3600]) * chance.randrange(60)),
            "host": f"h{chance.randrange(6)}",
            "url": chance.choice(["/", "/a", None]),
            "status": chance.choice([200, 404]),
            "bytes": chance.randrange(1000),
        }
        for n in range(number)
    ]
