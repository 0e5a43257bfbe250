"""A comparison as people read it: values, one sentence, a page, and the history of all comparisons."""
