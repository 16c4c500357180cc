"""A contained sandbox that tries to get out, before any other is opened."""

from ..local import probe

# Debian 12's runsc (of 2022) refuses how coreutils 9 ask; most else works.
WEAK, LS = "ls -d / >/dev/null 2>&1 && echo ls", "`ls DIR` and `stat` of coreutils fail under this gVisor; a newer one?"
OWN_KERNEL = {"namespaces", "seccomp"}  # gVisor has its own of both


def prove(env: probe.Opens, name: str, hint: str) -> dict[str, bool]:
    """Raises `ConfigError` that names what did not hold. `ls` may be missing: see `LS`."""
    wanted = probe.wanted("none", filtered=True)
    wanted = [word for word in wanted if name != "gvisor" or word not in OWN_KERNEL]
    holds = probe.prove(env, wanted, hint, where=f"with {name}", more=WEAK)
    return {**dict.fromkeys(wanted, True), "ls": "ls" in holds}
