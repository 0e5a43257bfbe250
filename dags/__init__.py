"""Airflow: schedule and order only; every task is one `braid` command.

A file in a folder of your own may take them from here: `from braid.dags.daily_batch import dag`.
"""

import sys
from pathlib import Path

# Airflow puts its folder of DAGs on the path, where they find what they have in common; here nobody else does.
if (_FOLDER := str(Path(__file__).parent)) not in sys.path:
    sys.path.append(_FOLDER)
