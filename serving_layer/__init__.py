"""The serving layer: merges base and tail into one number and answers with it. Not built yet."""
