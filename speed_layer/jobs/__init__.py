"""Jobs that run for good, side by side in one Spark application: started, tended, tried again, stopped."""
