"""The protocol without Spark: the product's own rules, run by actors over tables in memory, in any order."""
