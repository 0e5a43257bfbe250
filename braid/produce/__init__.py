"""Makes events: a deterministic web log as nasty as life, and real files replayed with their real disorder."""
