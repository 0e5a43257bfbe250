"""Views of advertisements: what does each campaign owe? Counted in ten seconds, in money that is exact to the cent.

An event names an advertisement; a table says to which campaign it belongs. It is the query of a well-known benchmark
of streaming, with money in it.
"""

from braid import Lookup, Source, View, count, sum_, tumbling

ad_events = Source(
    name="ad_events",
    kafka_topic="ad_events",
    schema="id string, time timestamp, ad string, kind string, price decimal(10,4)",
    event_time="time",
    event_id="id",
    rules={"a price is not negative": "price >= 0"},
)

campaign_bills = View(
    name="campaign_bills",
    source=ad_events,
    enrich=(Lookup(table="tables/campaigns.csv", on="ad", columns=("campaign",)),),
    where="kind = 'view'",
    keys=("campaign",),
    window=tumbling("10 seconds"),
    # A decimal's sum is a decimal: not one view is lost in the ninth digit.
    measures={"views": count(), "cost": sum_("price")},
)
