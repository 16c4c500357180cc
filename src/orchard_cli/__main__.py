"""Where the command begins; also `python -m orchard_cli`."""

import signal


def main() -> None:
    """Until all is loaded nothing has begun, and Ctrl-C is an end without words."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
