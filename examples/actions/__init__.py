"""What people do in a mobile application: how often is each action taken in an hour, and on how many phones?

A phone that is offline keeps its events and sends them hours later. They count in the hour in which they happened.
"""

from braid import Source, View, approx_distinct, count, tumbling

actions = Source(
    name="actions",
    kafka_topic="actions",
    schema="id string, time timestamp, phone string, action string",
    event_time="time",
    event_id="id",
    timezone="Europe/Paris",
)

actions_per_hour = View(
    name="actions_per_hour",
    source=actions,
    keys=("action",),
    window=tumbling("1 hour"),
    measures={"times": count(), "phones": approx_distinct("phone")},
)
