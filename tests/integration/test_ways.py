"""Every way to a number gives the same states: live tail, folded base, replays of history in any order, recompute."""

import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from braid import Source, View, approx_distinct, count, max_, min_, quantile, session, sliding, stddev, sum_
from braid.examples.weblog import requests
from braid.infra.broker import Broker
from braid.log.contents import create
from braid.log.table import Log
from braid.produce.outlet import kafka_outlet
from braid.produce.run import Production, run
from braid.produce.weblog import Weblog, weblog
from braid.runtime.settings import Settings
from braid.tables.commits import commits
from braid.tables.spark_tables import pinned
from speed_layer.jobs.engine import stream
from speed_layer.promotion import judge
from speed_layer.stream.replay import replay
from tests.conftest import Answer
from tests.streams import recomputed, served, tables_of

pytestmark = pytest.mark.soak


@pytest.fixture
def settings(home: Path, broker: Broker) -> Settings:
    """Epochs of a second and folds of every two: as much happens as in a day."""
    second = timedelta(seconds=1)
    return Settings(
        home=str(home), spark_master="local[2]", kafka_bootstrap=broker.bootstrap, epoch=second, fold_every=2 * second
    )  # fmt: skip


def views_of(source: Source, keys: tuple[str, ...], **measures: Any) -> list[View]:
    """One that advances its own base, and one of sessions whose base only a replay writes."""
    window = sliding("1 hour", every="15 minutes")
    sessions, gap = {"n": count()}, session(gap="30 minutes")
    return [
        View(name="by_itself", source=source, keys=keys, window=window, measures=measures, mode="kappa"),
        View(name="sessions", source=source, keys=keys, window=gap, measures=sessions),
    ]


def shuffle_history(spark: Any, log: Log, new: Log) -> None:
    """The same rows in another log, in no order at all, as a log is after years of maintenance."""
    from pyspark.sql import functions as F

    create(spark, new)
    newest = next(commits(log.table))[1]
    rows = pinned(spark, log.table).orderBy(F.rand(1)).repartition(5)
    writer = rows.write.format("delta").mode("append").option("userMetadata", newest.to_json())
    writer.save(new.table)


def assert_all_ways_agree(
    spark: Any, settings: Settings, source: Source, views: list[View], tmp_path: Path
) -> None:
    log = Log(source, settings)
    elsewhere = Settings(home=str(tmp_path / "elsewhere"), spark_master="local[2]", epoch=settings.epoch)
    shuffle_history(spark, log, Log(source, elsewhere))
    stream(spark, views, elsewhere, only=True, once=True)
    for view in views:
        expected = recomputed(spark, view, settings)
        assert expected
        assert served(spark, view, tables_of(settings, view)) == expected, f"live {view.name}"
        assert served(spark, view, tables_of(elsewhere, view)) == expected, f"shuffled {view.name}"
        version = replay(spark, settings, view)
        assert version.phase == "candidate"
        assert served(spark, view, tables_of(settings, view, 2)) == expected, f"replayed {view.name}"
    verdict = judge(spark, settings, views[0].name)
    assert verdict.holds, verdict.objections()
    assert all(parity.groups > 0 for parity in verdict.parities)
    assert pinned(spark, tables_of(settings, views[0]).base).count() > 0


def test_all_ways_agree_on_the_nastiest_events(spark: Any, settings: Settings, tmp_path: Path) -> None:
    source = replace(requests, kafka_topic=f"t-{uuid.uuid4().hex}")
    views = views_of(
        source, ("status",),
        hits=count(), bytes=sum_("bytes"), hosts=approx_distinct("host"), p95=quantile("bytes", 0.95),
    )  # fmt: skip
    for seed in range(3):
        nasty = Weblog(events=1500, seed=seed, late=0.3, duplicates=0.1, malformed=0.05, out_of_order=0.3)
        plan = Production(weblog(nasty), {}, None, source.zone)
        outlet = kafka_outlet(settings, str(source.kafka_topic), 3)
        run(plan, outlet, rate=0, truth_file=None, on_ack=lambda record: None)
        stream(spark, views, settings, sources=[source], only=True, once=True)
    assert_all_ways_agree(spark, settings, source, views, tmp_path)


def test_all_ways_agree_on_earthquakes_in_the_order_of_their_revisions(
    spark: Any, settings: Settings, shared_data: Path, tmp_path: Path, braid: Callable[..., Answer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """85 % of the events are behind the largest event time that was seen before them."""
    fields = {
        "name": "quakes", "kafka_topic": f"t-{uuid.uuid4().hex}", "event_time": "time", "event_id": "id",
        "schema": "id string, time timestamp, updated timestamp, mag double, magType string, place string",
    }  # fmt: skip
    source, definitions = Source(**fields), tmp_path / "definitions.py"
    definitions.write_text(f"from braid import Source\nquakes = Source(**{fields!r})\n")
    monkeypatch.setenv("BRAID_DEFINITIONS", str(definitions))
    monkeypatch.setenv("BRAID_KAFKA_BOOTSTRAP", settings.bootstrap)
    file = shared_data / "usgs" / "all_month_quakewatch.csv"
    sent = braid("produce", "--source", "quakes", "--csv", str(file), "--arrival", "updated", "--json")
    assert sent.code == 0, sent.err
    assert json.loads(sent.out)["sent"] == 9_462
    views = views_of(
        source, ("magType",), n=count(), largest=max_("mag"), least=min_("mag"), spread=stddev("mag")
    )
    stream(spark, views, settings, sources=[source], only=True, once=True)
    assert_all_ways_agree(spark, settings, source, views, tmp_path)
