"""How right streaming is, how soon, and why it differs: compared, explained, kept and shown."""
