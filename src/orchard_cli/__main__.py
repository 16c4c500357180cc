"""`python -m orchard_cli`."""

from .cli import main

main()
