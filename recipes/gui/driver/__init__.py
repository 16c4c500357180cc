"""The program that owns one Chromium and listens beside it, inside a sandbox. It imports nothing of orchard.

    python -m driver ADDRESS_FILE      the token is read from $DRIVER_TOKEN

`ADDRESS_FILE` becomes `{"port": …}` once the browser stands, or `{"error": …}`. A client says the token in its first
line (a page that finds the port does not know it), then sends requests, one JSON object a line:

    {"op": "reset", "args": {…}}  →  {"value": {…}}  or  {"fault": {"code": …, "who": "site" | "infra", "message": …}}

Operations: `reset act observe state rest health exit`. One request at a time.
"""
