"""Times of the sandbox service: embedded and over REST, beside raw subprocess and bare bubblewrap, in the same run.

    python bench/env_service.py [--json] [--repeat 200] [--sandboxes 100]

Closed loop, wall-clock milliseconds at the client; a failure counts as +∞. Also as `orchard env bench`.
"""

import argparse
import json

from orchard_cli.console import Console
from orchard_cli.env.service.bench import measure, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=200)
    parser.add_argument("--sandboxes", type=int, default=0)
    options = parser.parse_args()
    console = Console(json_only=options.json)
    result = measure(repeat=options.repeat, sandboxes=options.sandboxes, note=console.note)
    if options.json:
        print(json.dumps(result, indent=1))
        return
    for title, columns, lines in rows(result):
        console.table(title, columns, lines)


if __name__ == "__main__":
    main()
