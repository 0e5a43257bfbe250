"""The serving layer: merges base and tail into one number, and answers and follows with it, without Spark."""
