"""What is said about a configuration: settings that nothing reads, the saved file, the whole printed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import schema
from ..compose import Composed, compose, leaves, root_class
from ..console import Console
from ..stages.context import READS

_ALWAYS = {"run", "out", "seed"}


def unread(composed: Composed, stages: Sequence[str], reads: Mapping[str, Sequence[str]] = READS) -> Iterator[str]:
    """One line for each setting on the command line that neither the stages nor the chosen kind will read."""
    sections = {section for stage in stages for section in reads[stage]} | _ALWAYS
    kinds = {key: item.metadata.get("kinds") for key, item in leaves(root_class(composed.domain))}
    for key in composed.given:
        section = key.partition(".")[0]
        kind = getattr(getattr(composed.config, section), "kind", "")
        if section not in sections:
            yield f"note: `{key}` is not read by {' or '.join(stages)}"
        elif kinds.get(key) and kind not in kinds[key]:
            wanted = " or ".join(f"{section}.kind={k}" for k in kinds[key])
            yield f"note: `{key}` is not read with {section}.kind={kind}; it is with {wanted}"


def save_config(config: schema.Config, root: Path) -> None:
    (root / "config.yaml").write_text(as_yaml(config))


def as_yaml(config: schema.Config) -> str:
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(asdict(config)))


def show_config(domain: str, words: Sequence[str], *, json: bool) -> None:
    """The composed settings, as YAML or JSON, to stdout."""
    config = compose(domain, words).config
    console = Console(json_only=json)
    whole: dict[str, Any] = asdict(config)
    if json:
        console.data(whole)
    else:
        console.text(as_yaml(config))
