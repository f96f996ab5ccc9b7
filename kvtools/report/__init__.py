"""What a run found, as one typed value, and its renderings."""
