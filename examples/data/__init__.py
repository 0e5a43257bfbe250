"""What the examples are fed with, made up from a seed, and what they must answer, by plain Python."""
