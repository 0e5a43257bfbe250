"""Page views of users who move: how many views come from each country?

The table of users is joined when an event is first read. A user who moves takes along what is viewed from then on; what
was counted before stays where it was until batch restates the day, or a replay reads history again.
"""

from braid import Lookup, Source, View, count, tumbling

page_views = Source(
    name="page_views",
    kafka_topic="page_views",
    schema="id string, time timestamp, user_id string, page string",
    event_time="time",
    event_id="id",
)

views_by_country = View(
    name="views_by_country",
    source=page_views,
    enrich=(Lookup(table="tables/users", on="user_id", columns=("country",)),),
    keys=("country",),
    window=tumbling("1 hour"),
    measures={"views": count()},
)
