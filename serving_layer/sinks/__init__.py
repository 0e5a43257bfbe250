"""Numbers that leave: a view's merged numbers in topics, tables and folders of others, each change once."""
