"""What breaks the prefix, and what each cause costs."""
