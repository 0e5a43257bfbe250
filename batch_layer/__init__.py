"""The batch layer: plans, recomputes, audits and publishes days of a view, one at a time or under Airflow."""
