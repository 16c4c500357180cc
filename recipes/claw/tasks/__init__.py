"""Tasks of the assistant: families in YAML, drawn by seed."""
