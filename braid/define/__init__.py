"""What a user writes: sources, views, lookups, windows and expectations as values, and how files of them are loaded."""
