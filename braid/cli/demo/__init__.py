"""`braid demo`: the whole story, or one example, played on this machine and checked against the truth."""
