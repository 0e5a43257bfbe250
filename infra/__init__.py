"""What Braid runs on: jars, the embedded brokers, a Spark cluster of this machine, and the doctor who examines them."""
