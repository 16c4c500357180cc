"""Sandboxes whose agent lives inside: under gVisor (`gvisor`), or in a container of an engine (`container`).

One socket leads in, held by the driver; connections are passed over it as descriptors. When the driver is gone the
agent sees that socket end, ends with all that is inside, and the runtime clears the place.
"""
