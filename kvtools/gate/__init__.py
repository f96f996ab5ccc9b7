"""The gate: a report against a budget gives a verdict. Pure: nothing here reads a log or ends a process."""
