"""What `braid demo` runs: a web server's requests, and one number about them."""

from examples.weblog import page_traffic, requests

__all__ = ["page_traffic", "requests"]
