"""The log of a source: the table that holds every event, the events of a view in it, and its lookups."""
