"""Starts the shop inside a sandbox: `python3 -I server.py --port P --seed N --state FILE [--setup FILE]`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from storefront.serve import main

    main()
