"""Readings of devices: how warm is it now, and which reading is beyond everything that its device has shown so far?

Batch learns every night what is usual for a device; the stream joins that in and counts what is not.
"""

from braid import Lookup, Source, View, count, max_, mean, min_, sliding, stddev

readings = Source(
    name="readings",
    kafka_topic="readings",
    schema="device string, time timestamp, sensor string, value double",
    event_time="time",
)

climate = View(
    name="climate",
    source=readings,
    keys=("sensor",),
    window=sliding("5 minutes", every="1 minute"),
    measures={
        "readings": count(),
        "mean": mean("value"),
        "least": min_("value"),
        "most": max_("value"),
        "spread": stddev("value"),
    },
)

# The model: what is usual for each device, up to the last day that batch has published.
usual = View(
    name="usual",
    source=readings,
    keys=("device",),
    measures={"level": mean("value"), "deviation": stddev("value")},
)

# Beyond five standard deviations. A device that is not known yet has no model, and raises nothing.
alerts = View(
    name="alerts",
    source=readings,
    enrich=(
        Lookup(table="tables/devices.csv", on="device", columns=("site",)),
        Lookup(table=usual, on="device", columns=("level", "deviation")),
    ),
    where="abs(value - level) > 5 * deviation",
    keys=("site", "device", "sensor"),
    window=sliding("5 minutes", every="1 minute"),
    measures={"alerts": count(), "highest": max_("value")},
)
