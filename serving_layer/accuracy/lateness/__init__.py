"""How late events come, how complete windows were when they were served, and what a watermark would have cost."""
