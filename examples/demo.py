"""What `braid demo` runs: a web server's requests, and one number about them."""

from dataclasses import replace

from braid.examples import weblog

# The demo sends three days within seconds: its events say themselves when they would have come.
requests = replace(weblog.requests, schema=f"{weblog.requests.schema}, arrived timestamp", arrival="arrived")
page_traffic = replace(weblog.page_traffic, source=requests)

__all__ = ["page_traffic", "requests"]
