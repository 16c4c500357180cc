"""The assistant's harnesses: native calls, the same calls to an MCP server, or a shell with SKILL.md files.

All act on the same world through the same operations, and leave the same export; only `face` in the audit differs.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from orchard_cli import schema
from orchard_cli.env.sandbox import Sandbox
from orchard_cli.errors import ConfigError, SandboxError, boundary
from orchard_cli.harness.harness import Harness, Transcript
from orchard_cli.harness.loop import MiniLoop
from orchard_cli.harness.react import ReactLoop
from orchard_cli.policy.policy import Policy, Sampling
from orchard_cli.task import Task

from .mcp_tools import McpTools
from .skills.documents import documents
from .tools import NativeTools

MCP = "mcp"  # native calls, to the tools that an MCP server in the sandbox lists
SKILLS_PROMPTS = Path(__file__).parent / "skills" / "prompts"


class SkillsLoop:
    """A bash tool, one command a turn, with SKILL.md files under /skills. `claw done ANSWER` submits."""

    name = "skills"
    forkable = False  # the services are a process, which a fork does not copy

    def __init__(self, config: schema.Harness, prompts: Path = SKILLS_PROMPTS):
        self._loop = MiniLoop(replace(config, kind=MiniLoop.name), prompts / config.prompt)

    def run(
        self,
        task: Task,
        sandbox: Sandbox,
        policy: Policy,
        sampling: Sampling,
        *,
        resume: Transcript | None = None,
    ) -> Transcript:
        with boundary(SandboxError, "showing the skills"):
            for path, text in documents(task.data["world"]).items():
                sandbox.write(path, text.encode())
        return self._loop.run(task, sandbox, policy, sampling, resume=resume)


def has_shell(config: schema.Harness) -> bool:
    """Whether the agent has a shell in the sandbox: then gone services are its own doing (`launch.export`)."""
    return config.kind == SkillsLoop.name


def harness(config: schema.Harness, prompts: Path) -> Harness:
    """The harness that `harness.kind` names. prompts: folder of prompt folders for the native one.

    Raises `ConfigError` for one that there is not.
    """
    if config.kind not in HARNESSES:
        raise ConfigError(f"harness.kind is `{config.kind}`; there are: {', '.join(HARNESSES)}", hint="harness=react")
    return HARNESSES[config.kind](config, prompts)


HARNESSES: dict[str, Callable[[schema.Harness, Path], Harness]] = {
    ReactLoop.name: lambda config, prompts: ReactLoop(config, prompts / config.prompt, NativeTools),
    MCP: lambda config, prompts: ReactLoop(config, prompts / config.prompt, McpTools, MCP),
    SkillsLoop.name: lambda config, prompts: SkillsLoop(config),
}
