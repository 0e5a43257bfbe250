"""A web server's log: what is read, by how many, and how visitors move through the site.

`braid check` proves that everything here works, `braid show page_traffic` explains one view.
"""

from braid import Source, View, approx_distinct, count, quantile, session, sliding, sum_, tumbling

# A source says what an event looks like, when it happened, and what makes two records the same event.
requests = Source(
    name="requests",
    kafka_topic="requests",
    schema="id string, time timestamp, host string, url string, status int, bytes bigint",
    event_time="time",
    event_id="id",
    timezone="America/New_York",
    rules={"status is an HTTP code": "status between 100 and 599"},
)

# How busy is each page right now? Five minutes, renewed every minute, stored as one-minute panes.
page_traffic = View(
    name="page_traffic",
    source=requests,
    where="status < 400",
    keys=("url",),
    window=sliding("5 minutes", every="1 minute"),
    measures={"hits": count(), "bytes": sum_("bytes"), "visitors": approx_distinct("host")},
)

# How long do people stay, and how much do they load? A visit ends when its host is silent for half an hour.
visits = View(
    name="visits",
    source=requests,
    keys=("host",),
    window=session(gap="30 minutes"),
    measures={"requests": count(), "bytes": sum_("bytes"), "p95_bytes": quantile("bytes", 0.95)},
)

# Which content is popular each day? A page is a path that ends in .html or .htm, or has no extension; pictures and
# scripts are not content. Derived columns are computed in order: `extension` uses `path`.
daily_pages = View(
    name="daily_pages",
    source=requests,
    derive={
        "path": "split_part(url, '?', 1)",
        "extension": r"lower(regexp_extract(path, r'\.([A-Za-z0-9]+)$', 1))",
    },
    where="status = 200 and extension in ('', 'html', 'htm')",
    keys=("path",),
    window=tumbling("1 day"),
    measures={"views": count(), "visitors": approx_distinct("host")},
)
