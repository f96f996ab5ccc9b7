"""How alike prompts are: as text, as prefixes, and how much of them varies. Formulas: docs/metrics.md."""
