"""`orchard model import`: bring weights from elsewhere into a transformers checkpoint."""

from pathlib import Path
from typing import Annotated

import typer

from ..console import Console
from ..errors import RunError

app = typer.Typer(help="Bring models in.", no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def _group() -> None:
    """A group even while it has one command."""


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A GGUF file.")],
    out: Annotated[Path | None, typer.Option(help="Where the checkpoint goes; beside the file by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Write a transformers checkpoint from a GGUF file, dequantised, its tokenizer and chat template with it."""
    from ..policy.gguf import import_gguf

    console = Console(json_only=json)
    target = out or file.with_suffix("")
    if target.exists():
        raise RunError(f"{target} exists already", hint="choose another place with --out")
    import_gguf(file, target)
    if json:
        console.data({"checkpoint": str(target)})
    console.say(f"→ {target}; train it with model=smollm2_135m model.path={target}")
