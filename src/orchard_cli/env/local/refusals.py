"""What a sandbox of this machine refuses, and whose fault that is: the client's."""

from ...errors import Effect, SandboxError


def no_live_fork() -> SandboxError:
    text = "a sandbox of this kind cannot be forked with its processes: env.isolation=gvisor can"
    return refused(text, "client.unsupported")


def closed(effect: Effect) -> SandboxError:
    return refused("this sandbox is closed", "client.closed", effect)


def check_words(*words: str) -> None:
    if any("\0" in word for word in words):
        raise bad_argument("a path holds a NUL byte")


def bad_argument(message: str) -> SandboxError:
    return refused(message, "client.bad_argument")


def refused(message: str, code: str, effect: Effect = "none") -> SandboxError:
    return SandboxError(message, code=code, attributable="client", effect=effect, retry="never")
