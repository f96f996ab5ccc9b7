"""Hot and cold: the classes of a log, the rules that tell them apart on arrival, and when cold bursts come."""
