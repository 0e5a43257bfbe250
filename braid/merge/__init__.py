"""The merge of base and tail: each event is taken from exactly one side of its day's cut."""
