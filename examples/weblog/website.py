"""More questions about the requests of this folder: what is trending now, and is the site well?"""

from braid import View, approx_distinct, count, mean, quantile, sliding, sum_
from braid.examples.weblog import daily_pages, requests, visits

__all__ = ["daily_pages", "health", "requests", "trending", "visits"]

# Streaming's question about the same content as `daily_pages`: five minutes, renewed every minute.
trending = View(
    name="trending",
    source=requests,
    derive=daily_pages.derive,
    where=daily_pages.where,
    keys=("path",),
    window=sliding("5 minutes", every="1 minute"),
    measures={"views": count(), "visitors": approx_distinct("host")},
)

# A rate is a mean of noughts and ones. It is stored as a sum and a count, which merge: rates cannot be added up.
health = View(
    name="health",
    source=requests,
    derive={"failed": "if(status >= 400, 1, 0)"},
    window=sliding("5 minutes", every="1 minute"),
    measures={
        "requests": count(),
        "visitors": approx_distinct("host"),
        "bytes": sum_("bytes"),
        "p95_bytes": quantile("bytes", 0.95),
        "error_rate": mean("failed"),
    },
)
