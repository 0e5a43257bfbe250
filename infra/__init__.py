"""What Braid runs on: requirements, jars, the embedded broker, and the doctor who examines them."""
