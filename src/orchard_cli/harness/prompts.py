"""The words that a harness says: jinja2 files in a domain's prompt folder."""

from functools import cache
from pathlib import Path

import jinja2

from ..env.sandbox import ExecResult
from ..errors import ConfigError
from ..task import Task

NAMES = ("system", "instance", "observation", "format_error")


class Prompts:
    """`system` and `instance` see `task`; `observation` sees the result of a command; `format_error` sees `error`.

    `system` also sees `tools`: a line for each tool, or empty where the policy is not told of them in words.
    """

    def __init__(self, folder: Path, names: tuple[str, ...] = NAMES):
        self._templates = _load(folder, names)

    def system(self, task: Task, tools: str = "") -> str:
        return self._templates["system"].render(task=task, tools=tools)

    def instance(self, task: Task) -> str:
        return self._templates["instance"].render(task=task)

    def format_error(self, error: str) -> str:
        return self._templates["format_error"].render(error=error)

    def observation(self, result: ExecResult, max_chars: int) -> str:
        """The output as the policy sees it: whole, or its first and last halves if it exceeds `max_chars`."""
        output = result.stdout.decode(errors="replace")
        cut = max(0, len(output) - max_chars)
        half = max_chars // 2
        return self._templates["observation"].render(
            output=output if not cut else "",
            head=output[:half] if cut else "",
            tail=output[len(output) - half :] if cut else "",
            truncated_chars=cut + result.truncated_bytes,
            exit_code=result.exit_code,
            reason=result.reason,
        )


@cache
def _load(folder: Path, names: tuple[str, ...]) -> dict[str, jinja2.Template]:
    loader = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701 - plain text
    templates = {}
    for name in names:
        path = folder / f"{name}.md"
        if not path.is_file():
            have = ", ".join(sorted(p.name for p in folder.parent.iterdir() if p.is_dir()))
            raise ConfigError(f"harness.prompt: `{folder.name}` has no {name}.md", hint=f"there are: {have}")
        templates[name] = loader.from_string(path.read_text())
    return templates
