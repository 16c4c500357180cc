"""One small repository interface, and the stores behind it."""
