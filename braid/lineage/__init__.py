"""Lineage: which run read what and wrote what, said as OpenLineage events to who asked for them."""
