"""The operations of the REST interface, by noun."""
