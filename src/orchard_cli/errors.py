"""Every error that orchard raises on purpose.

    OrchardError            shown as `error: …` and `hint: …`, never as a traceback
    ├── ConfigError         the command or the configuration is wrong            exit 2
    │   └── MissingExtra    a package that this choice needs is not installed    exit 2
    ├── DataError           a file that the user gave is wrong: names file, line, field   exit 1
    ├── RunError            the run cannot go on                                 exit 1
    ├── Interrupted         Ctrl-C or SIGTERM; the work can be gone on with      exit 130
    └── AttemptError        something inside one attempt; becomes part of its record
        ├── SandboxError    the place where the agent acts
        ├── PolicyError     the model or its endpoint
        ├── HarnessError    the loop between them
        └── GradeError      the verifier

An `AttemptError` carries a `Fault`, which says whose fault it was and whether trying again can help
(reference design: environments, d.8). An infrastructure fault is never taken for what the policy did.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal

import msgspec

Attributable = Literal["model", "infra", "client", "unknown"]
Effect = Literal["none", "complete", "unknown"]
Retry = Literal["never", "same", "fresh"]


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What went wrong inside an attempt, and who owns it."""

    domain: str  # sandbox | policy | harness | grade
    code: str  # e.g. "infra.agent_unreachable", "http.429"
    message: str
    attributable: Attributable = "unknown"
    effect: Effect = "unknown"
    retry: Retry = "fresh"


class OrchardError(Exception):
    """Base of all; `hint` is the one line that tells a person what to do."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = ""):
        super().__init__(message)
        self.hint = hint


class ConfigError(OrchardError):
    exit_code = 2


class MissingExtra(ConfigError):
    """A choice needs a package that is not there."""

    def __init__(self, what: str, package: str, extra: str):
        super().__init__(f"{what} needs the `{package}` package", hint=f"pip install 'orchard-cli[{extra}]'")


class DataError(OrchardError):
    """A file is wrong. The message names the file, the line and the field."""


class RunError(OrchardError):
    """The run cannot go on."""


_DISK_HINTS = {
    errno.ENOSPC: "free some space, then give the same command: it goes on where it stopped",
    errno.EDQUOT: "your disk quota is used up; free some space, then give the same command",
    errno.EFBIG: "the file is as large as this system or `ulimit -f` allows",
    errno.EROFS: "the file system is read-only; choose another folder with out=",
    errno.EACCES: "choose a folder that you may write to with out=",
    errno.EPERM: "choose a folder that you may write to with out=",
    errno.ENOTDIR: "choose another folder with out=",
    errno.EEXIST: "choose another folder with out=",
    errno.ENOENT: "choose another folder with out=",
}


def disk_error(error: OSError, path: object = "", doing: str = "used") -> RunError:
    """What the disk refused, in words: `path` (else the error's own file) cannot be `doing`."""
    hint = _DISK_HINTS.get(error.errno or 0, "check the disk and the folder, then give the same command")
    named = path or error.filename or "a file"
    return RunError(f"{named} cannot be {doing}: {error.strerror or error}", hint=hint)


class Interrupted(OrchardError):
    """Somebody stopped the command."""

    exit_code = 130


class AttemptError(OrchardError):
    """Raised inside one attempt; the rollout writes its fault into the record."""

    domain = "attempt"
    attributable: Attributable = "unknown"

    def __init__(
        self,
        message: str,
        *,
        code: str,
        attributable: Attributable | None = None,
        effect: Effect = "unknown",
        retry: Retry = "fresh",
        hint: str = "",
    ):
        super().__init__(message, hint=hint)
        self.fault = Fault(self.domain, code, message, attributable or self.attributable, effect, retry)


class SandboxError(AttemptError):
    domain = "sandbox"
    attributable = "infra"


class PolicyError(AttemptError):
    domain = "policy"
    attributable = "infra"


class HarnessError(AttemptError):
    domain = "harness"


class GradeError(AttemptError):
    domain = "grade"
    attributable = "infra"


def installed(package: str) -> bool:
    """Whether `package` can be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


@contextmanager
def boundary(kind: type[AttemptError], doing: str) -> Iterator[None]:
    """Name whatever ordinary exception escapes from domain or library code: `with boundary(GradeError, "…")`."""
    try:
        yield
    except OrchardError:
        raise
    except Exception as error:  # noqa: BLE001 - this is the named boundary
        raise kind(f"{doing}: {type(error).__name__}: {error}", code="unexpected") from error
