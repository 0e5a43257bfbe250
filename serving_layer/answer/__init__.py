"""Questions and answers: what a reader asks of a view, the rows that answer it, and where they come from."""
