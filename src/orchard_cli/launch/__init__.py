"""Where stages are run: on this machine."""
