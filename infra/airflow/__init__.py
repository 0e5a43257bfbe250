"""A local Airflow with Braid's DAGs: its files, its processes, and the questions that are asked of it."""
