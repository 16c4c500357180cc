"""The only ways out of a sandbox: an egress proxy with rules, and a socket that leads to one model endpoint."""
