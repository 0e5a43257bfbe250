"""A project of one's own: what is guessed from a sample, the files that it begins with, and tests of its views."""
