"""A project of one's own: what is guessed from a sample, and the files that it begins with."""
