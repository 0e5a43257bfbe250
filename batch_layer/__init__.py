"""The batch layer: plans, recomputes and publishes days of a view, under Airflow. Not built yet."""
