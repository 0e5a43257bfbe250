"""The commands of the batch layer: planning, running, releasing and showing days."""
