"""The stream of a view: from its source's log to its tail, folded, followed and replayed."""
