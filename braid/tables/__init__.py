"""Delta tables: their commits and what these say, the tables of a view, small files, and their upkeep."""
