"""The shop itself: standard library only, so that it runs inside any sandbox that has a Python."""
