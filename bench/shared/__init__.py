"""What several benchmarks use: settings and brokers of their own, events, made-up tables, and a picture."""
