"""Messages: which hashtags are trending? A minute, renewed every five seconds, stored as panes of five seconds."""

from braid import Source, View, count, sliding

messages = Source(
    name="messages",
    kafka_topic="messages",
    schema="id string, time timestamp, text string",
    event_time="time",
    event_id="id",
)

# A message counts once for each of its tags, however often it repeats one.
hashtag_trends = View(
    name="hashtag_trends",
    source=messages,
    each={"tag": "array_distinct(regexp_extract_all(lower(text), '#([a-z0-9_]+)', 1))"},
    keys=("tag",),
    window=sliding("1 minute", every="5 seconds"),
    measures={"messages": count()},
)
