"""The sandbox service on this machine: the same as `orchard env bench`, whose `--help` lists what can be measured.

python bench/env_service.py [--repeat 200] [--peers FOLDER] [--agents] [--fork 1024] [--transfer 1024] ...
"""

import sys

from orchard_cli.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["env", "bench"]
    main()
