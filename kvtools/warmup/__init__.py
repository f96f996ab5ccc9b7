"""A warm-up set: which prefixes to compute before the traffic comes."""
