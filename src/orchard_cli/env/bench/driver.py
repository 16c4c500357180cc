"""Run by the Python that has the peers: `driver.py REPEAT` prints what each `echo hi` took, in ms, as JSON."""

import asyncio
import importlib
import json
import sys
import time
from typing import Any

ECHO = "echo hi"
Times = dict[str, list[float]]


def mini(repeat: int) -> Times:
    """mini-swe-agent's local environment: a shell for each command, its output when it ends."""
    env = importlib.import_module("minisweagent.environments.local").LocalEnvironment()
    times = []
    for _ in range(repeat + 1):
        began = time.perf_counter()
        assert env.execute({"command": ECHO})["output"] == "hi\n"
        times.append((time.perf_counter() - began) * 1e3)
    return {"mini-swe-agent local: exec": times[1:]}


async def _rex(repeat: int) -> Times:
    """SWE-ReX's local runtime in this process: a command of its own, and one in a session of bash."""
    words: Any = importlib.import_module("swerex.runtime.abstract")
    runtime: Any = importlib.import_module("swerex.runtime.local").LocalRuntime()
    await runtime.create_session(words.CreateBashSessionRequest())
    alone, session = [], []
    for number in range(repeat + 1):
        began = time.perf_counter()
        assert (await runtime.execute(words.Command(command=["bash", "-c", ECHO]))).stdout == "hi\n"
        alone.append((time.perf_counter() - began) * 1e3)
        if number <= repeat // 8:  # more than a tenth of a second each
            began = time.perf_counter()
            assert "hi" in (await runtime.run_in_session(words.BashAction(command=ECHO))).output
            session.append((time.perf_counter() - began) * 1e3)
    await runtime.close()
    return {"SWE-ReX local: exec": alone[1:], "SWE-ReX local: in a session": session[1:] or session}


if __name__ == "__main__":
    print(json.dumps({**mini(int(sys.argv[1])), **asyncio.run(_rex(int(sys.argv[1])))}))
