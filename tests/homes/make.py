"""Makes a small home with the code of the checkout that runs it, and packs it for `tests/integration/test_old_home.py`.

    .venv/bin/python -m tests.homes.make tests/homes/0.1.0.tar.xz

An archive is what a release left behind, and it is never made anew. When the form of a home changes (a table, a
commit's metadata, a checkpoint, a document), run this at the last commit with the form before, and give the archive
the name of that release: the test opens every archive in this folder. Leave the definitions and the events as they
are, because the test knows what is true of them.

In an archive lie `home`, a BRAID_HOME with the data of its embedded broker; `definitions.py`; `records.jsonl`, all that
was ever sent, one record a line; and `expected.json`, commands with what the release answered to them.

A home can be unpacked anywhere if its sources are topics: nothing in it names a folder but the broker's configuration,
which is written at each start. A source of files could not: Spark remembers the files that it has read by their whole
paths, and a record's place is made of its file's path. The inbox of requeued records is such a folder too, so nothing
was requeued here.

Only the command line and a client of Kafka's are used: it does not matter where Braid keeps its modules.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from tests.conftest import free_port
from tests.kafka import send

BRAID = str(Path(sys.executable).with_name("braid"))
TOPIC = "requests"
# Days of New York; on the third one an hour is missing.
DAYS = ("2024-03-08", "2024-03-09", "2024-03-10")

DEFINITIONS = """\
from braid import Lookup, Source, View, approx_distinct, count, max_, mean, quantile, session, sliding, sum_, tumbling

requests = Source(
    name="requests",
    kafka_topic="requests",
    schema="id string, time timestamp, host string, country string, url string, status int, bytes bigint",
    event_time="time",
    event_id="id",
    timezone="America/New_York",
    rules={"status is an HTTP code": "status between 100 and 599"},
    # An archive is opened years after it was written, and its ids are to be known then.
    dedup_horizon="36500 days",
)
# Of the batch layer: panes, sums and sketches.
page_traffic = View(
    name="page_traffic",
    source=requests,
    where="status < 400",
    keys=("url",),
    window=sliding("1 hour", every="30 minutes"),
    measures={"hits": count(), "bytes": sum_("bytes"), "visitors": approx_distinct("host")},
)
# Of the stream alone, and looked up by the next one.
hosts = View(name="hosts", source=requests, keys=("host",), measures={"land": max_("country")}, mode="kappa")
lands = View(
    name="lands",
    source=requests,
    enrich=Lookup(table=hosts, on="host", columns=("land",)),
    keys=("land",),
    window=tumbling("1 day"),
    measures={"requests": count(), "mean_bytes": mean("bytes")},
)
# Of the stream alone, in its second version: the first one had another gap.
visits = View(
    name="visits",
    source=requests,
    keys=("host",),
    window=session(gap="30 minutes"),
    measures={"requests": count(), "bytes": sum_("bytes"), "p95_bytes": quantile("bytes", 0.95)},
    mode="kappa",
)
"""
VIEWS = ("page_traffic", "hosts", "lands", "visits")
BEFORE = DEFINITIONS.replace('gap="30 minutes"', 'gap="10 minutes"')
# Asked now and by the test, which must get the same answers.
QUESTIONS = (
    *(f"query {view} --json" for view in VIEWS),
    "kappa status --json",
    "plan --json",
    "ledger requests --json",
    "quarantine show requests --json",
    f"batch plan --from {DAYS[0]} --to {DAYS[-1]} --json",
    "batch cut --run nightly",
    "compare page_traffic --history --json",
)


def event(number: int, day: str) -> dict[str, Any]:
    """An event like no other; its host and so its country, url, status and size follow from its number."""
    start = datetime.fromisoformat(f"{day}T05:00:00").replace(tzinfo=UTC)
    host = number % 5
    return {
        "id": f"e{number}",
        "time": (start + timedelta(minutes=number * 37 % (22 * 60), seconds=number % 60)).isoformat(),
        "host": f"host{host}",
        "country": ("DE", "US", "FR")[host % 3],
        "url": f"/{number % 4}",
        "status": 404 if number % 7 == 0 else 200,
        "bytes": 100 + number * number % 977,
    }


def events(numbers: Iterable[int], day: str) -> list[str]:
    return [json.dumps(event(number, day)) for number in numbers]


def malformed(number: int) -> list[str]:
    """Records that must be refused, each for a reason of its own."""
    one = event(number, DAYS[0])
    return [
        f'{{"id": "e{number}", "time": ',
        json.dumps(one | {"bytes": "many"}),
        json.dumps(one | {"time": None}),
        json.dumps(one | {"status": 999}),
    ]


class Office:
    """A home with its own broker, and commands that are given to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("BRAID_")
        } | {
            "BRAID_HOME": str(folder / "home"),
            "BRAID_DEFINITIONS": str(folder / "definitions.py"),
            "BRAID_KAFKA_PORT": str(self.port),
            "BRAID_KAFKA_CONTROLLER_PORT": str(free_port()),
            "BRAID_SPARK_MASTER": "local[2]",
            "BRAID_SPARK_MEMORY": "1g",
        }

    def braid(self, command: str, **settings: str) -> str:
        print(f"braid {command}", file=sys.stderr)
        done = subprocess.run(
            [BRAID, *command.split()],
            env=self.environment | settings, cwd=self.folder, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    @contextmanager
    def broker(self) -> Iterator[None]:
        self.braid("broker start")
        try:
            yield
        finally:
            self.braid("broker stop")

    def define(self, text: str) -> None:
        (self.folder / "definitions.py").write_text(text)

    def create_topic(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.port}")
        # Kept for ever: the ledger looks duplicates up at the broker, also in years.
        kept = {"retention.ms": "-1"}
        admin.create_topics([NewTopic(TOPIC, num_partitions=2, replication_factor=1, topic_configs=kept)])
        admin.close()

    def take(self, records: list[str]) -> None:
        """Sends records, and ingests them in an epoch of their own, which is closed then."""
        with (self.folder / "records.jsonl").open("a") as sent:
            sent.writelines(f"{record}\n" for record in records)
        send(f"127.0.0.1:{self.port}", TOPIC, [record.encode() for record in records])
        self.braid("ingest --once")


def live(office: Office) -> None:
    """All that a home goes through: history, days, late events, a fold, a new version, and a tail that stays."""
    office.define(BEFORE)
    first, second, third = DAYS
    office.take(events(range(40), first) + events(range(40, 70), second) + malformed(900))
    # What it has learnt from history is looked up by another view.
    office.braid("stream hosts --once")
    office.braid("stream --once")
    office.braid("batch cut --run nightly")
    office.braid(f"batch run --from {first} --to {second}")
    # Late ones, new ones, and copies of some that are there.
    office.take(events(range(70, 80), first) + events(range(80, 100), third) + events(range(5), first))
    office.braid("stream --once", BRAID_FOLD_EVERY="1 minute")
    office.braid(f"compare page_traffic --day {first}")
    office.braid("maintain")
    office.define(DEFINITIONS)
    office.braid("apply visits")
    # Its tail is young: it stays beside the base.
    office.take(events(range(100, 110), second) + events(range(110, 120), third) + malformed(901)[:2])
    office.braid("stream --once")


def ask(office: Office) -> dict[str, Any]:
    answers = {question: office.braid(question) for question in QUESTIONS}
    return {question: parsed(question, text) for question, text in answers.items()}


def parsed(question: str, answer: str) -> Any:
    return json.loads(answer) if "--json" in question else answer.strip()


def pack(folder: Path, archive: Path) -> None:
    """With the times of its files, which tell ages, and without what this machine has put into it."""

    def cleaned(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return None if entry.name.endswith("/broker.log") else entry

    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for name in sorted(path.name for path in folder.iterdir()):
            tar.add(folder / name, name, filter=cleaned)


def main(archive: Path) -> None:
    if archive.exists():
        sys.exit(f"{archive} is there: what a release left behind is not made anew.")
    with tempfile.TemporaryDirectory(prefix="braid-home-") as name:
        office = Office(Path(name))
        with office.broker():
            office.create_topic()
            live(office)
            expected = ask(office)
        (office.folder / "expected.json").write_text(json.dumps(expected, indent=1))
        pack(office.folder, archive)
    print(f"{archive}: {archive.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
