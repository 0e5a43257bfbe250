"""What every process runs on: settings, Spark, Kafka, object stores, logging, status, metrics and signals."""
