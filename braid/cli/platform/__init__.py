"""The commands that run Braid's parts on this machine: `up`, `broker`, `cluster`, `airflow`, `standby`, `doctor`."""
