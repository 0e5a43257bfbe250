"""Advertisements that are shown, and clicked: which campaign is worth its money?

A click names the showing that it belongs to, and comes seconds or minutes after it, by another way. Joined, the two are
one event that knows the campaign and what it cost.
"""

from braid import Join, Source, View, count, sum_, tumbling

impressions = Source(
    name="impressions",
    kafka_topic="impressions",
    schema="id string, time timestamp, ad_id string, campaign string, cost decimal(10,4)",
    event_time="time",
    event_id="id",
)

clicks = Source(
    name="clicks",
    kafka_topic="clicks",
    schema="id string, time timestamp, ad_id string",
    event_time="time",
    event_id="id",
)

clicked = Join(
    name="clicked",
    left=impressions,
    right=clicks,
    on="ad_id",
    # Right's time minus left's: who clicks later than that has found the page by other means.
    within=("0 minutes", "30 minutes"),
    time="right",
    columns={
        "campaign": "left.campaign",
        "cost": "left.cost",
        "after": "cast(timestampdiff(second, left.time, right.time) as bigint)",
    },
)

shown_per_hour = View(
    name="shown_per_hour",
    source=impressions,
    keys=("campaign",),
    window=tumbling("1 hour"),
    measures={"shown": count(), "cost": sum_("cost")},
)

clicked_per_hour = View(
    name="clicked_per_hour",
    source=clicked,
    keys=("campaign",),
    window=tumbling("1 hour"),
    measures={"clicks": count(), "paid": sum_("cost"), "seconds": sum_("after")},
)
