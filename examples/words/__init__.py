"""A topic of sentences: how often is each word said? The "hello world" of streaming."""

from braid import Source, View, count

sentences = Source(
    name="sentences", kafka_topic="sentences", schema="time timestamp, text string", event_time="time"
)
word_counts = View(
    name="word_counts",
    source=sentences,
    each={"word": "regexp_extract_all(lower(text), '[a-z]+', 0)"},
    keys=("word",),
    measures={"times": count()},
)
