"""A source and three views, one for each kind of window, for benchmarks that compare with jobs written by hand."""

from braid import Filled, Quarantined, Source, View, Volume, count, session, sliding, sum_, tumbling

requests = Source(
    name="requests", kafka_topic="requests", event_time="time", event_id="id",
    schema="id string, time timestamp, host string, url string, status int, bytes bigint",
    expect=(Volume(at_least=0.5, at_most=2, days=7), Filled("url", at_least=0.99), Quarantined(at_most=0.05)),
)  # fmt: skip
measures = {"hits": count(), "bytes": sum_("bytes")}
by_page = View(
    name="by_page", source=requests, keys=("url",), window=tumbling("1 hour"), measures=measures,
)  # fmt: skip
visits = View(
    name="visits", source=requests, keys=("host",), window=session(gap="30 minutes"), measures=measures
)
by_status = View(
    name="by_status", source=requests, keys=("status",), window=sliding("1 hour", every="15 minutes"),
    measures=measures,
)  # fmt: skip
VIEWS = (by_page, visits, by_status)
