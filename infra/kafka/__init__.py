"""The embedded Kafka brokers: one node, or three as a cluster."""
