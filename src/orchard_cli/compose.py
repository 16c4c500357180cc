"""conf/ + a domain + the command line → one typed, closed `Config`.

Hydra is used as a library. Its own world is open: `+key` slips past a structured schema, a repeated key wins
silently, a typo's hint is "use +". So every word of the command line is checked here first, and the composed
tree is merged back into the schema, which refuses what it does not know (training reference, a.4).
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from . import domains, schema
from .config_errors import nearest, refuse_override, translate
from .errors import ConfigError
from .limits import hold

_HERE = Path(__file__).parent
CONF = next(p for p in (_HERE / "conf", _HERE.parents[1] / "conf") if p.is_dir())
GROUPS = ("model", "teacher", "env", "harness", "tasks", "credit", "sft", "rl", "eval")


@dataclass(frozen=True)
class Composed:
    """A composed configuration and what the user said to get it."""

    domain: str
    config: schema.Config
    given: dict[str, str] = field(default_factory=dict)  # key or group → value as written


def compose(domain: str, words: Sequence[str]) -> Composed:
    """Compose `domain` with overrides such as `teacher=openai` or `rl.group.max=16`. Raises `ConfigError`."""
    folder = domains.find()[domain]
    root = root_class(domain)
    names, rest = _harnesses(domain, words)
    plans = [[*rest, f"harness={name}"] for name in names] or [rest]
    given = [_check(plan, folder, root) for plan in plans][0]
    with translate():
        made = [_hydra(domain, folder, root, plan) for plan in plans]
    if len(names) > 1:
        made[0].harnesses = {name: config.harness for name, config in zip(names, made, strict=True)}
    return Composed(domain, made[0], given)


def _harnesses(domain: str, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names in `harness=[a,b]` or `harness=all`, and the other words; no names where the user gave no such list."""
    found = [w for w in words if w.startswith("harness=[") or w == "harness=all"]
    if not found:
        return [], list(words)
    if len(found) > 1 or any(w.startswith("harness=") for w in words if w not in found):
        raise ConfigError("`harness` is given twice", hint="give it once: harness=[a,b]")
    names = [n.strip() for n in found[0].removeprefix("harness=").strip("[]").split(",")]
    if names == ["all"]:
        names = list(getattr(domains.load(domain), "HARNESSES", ()))
        if not names:
            raise ConfigError(f"`{domain}` does not say which harnesses are all", hint="name them: harness=[a,b]")
    if len(set(names)) < len(names):
        raise ConfigError(f"`{found[0]}` names a harness twice", hint="give each once")
    return names, [w for w in words if w not in found]


def root_class(domain: str) -> type[schema.Config]:
    """`schema.Config` whose `domain` section is typed by the domain itself."""
    config = domains.load(domain).Config
    return make_dataclass("Root", [("domain", config, field(default_factory=config))], bases=(schema.Config,))


def leaves(cls: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, dataclass field) of every setting below `cls` that a user may give."""
    for item in fields(cls):
        if item.metadata.get("derived"):
            continue
        kind = item.type if isinstance(item.type, type) else type(_default(item))
        if is_dataclass(kind):
            yield from leaves(kind, f"{prefix}{item.name}.")
        else:
            yield prefix + item.name, item


def choices(group: str, folder: Path) -> dict[str, Path]:
    """Name → file of the choices of a group: shipped, the domain's own, and those in `$ORCHARD_CONF`."""
    places = [CONF, folder / "conf", *_yours()]
    return {f.stem: f for place in places for f in sorted((place / group).glob("*.yaml"))}


def _yours() -> list[Path]:
    found = [Path(p).resolve() for p in os.getenv("ORCHARD_CONF", "").split(os.pathsep) if p]
    missing = [place for place in found if not place.is_dir()]
    if missing:
        raise ConfigError(
            f"$ORCHARD_CONF names {missing[0]}, which is no folder", hint="it holds folders such as teacher/"
        )
    return found


def _default(item: Any) -> Any:
    return item.default_factory() if callable(item.default_factory) else item.default


def _check(words: Sequence[str], folder: Path, root: type) -> dict[str, str]:
    """Refuse every word that Hydra would accept in silence; key → value of the others."""
    known = dict(leaves(root))
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key.strip() != key or key[:1] in "+~" or key.startswith("hydra"):
            refuse_override(word, known, GROUPS)
        if key in GROUPS:
            options = choices(key, folder)
            if value not in options:
                raise _no_choice(key, value, options)
        elif key not in known:
            refuse_override(word, known, GROUPS)
        elif isinstance(_default(known[key]), list) and value[:1] != "[":
            raise ConfigError(f"`{word}`: takes a list", hint=f"write `{key}=[{value}]`")
        if key in given:
            raise ConfigError(f"`{key}` is given twice: `{given[key]}` and `{value}`", hint="give it once")
        given[key] = value
    return given


def _no_choice(group: str, value: str, options: dict[str, Path]) -> ConfigError:
    near = nearest(value, options)
    hint = f"did you mean `{near}`?" if near else f"there are: {', '.join(sorted(options))}"
    return ConfigError(f"`{group}={value}`: no {group} is called `{value}`", hint=hint)


def _hydra(domain: str, folder: Path, root: type[schema.Config], words: Sequence[str]) -> schema.Config:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    store = ConfigStore.instance()
    store.store(name="schema", node=root)
    store.store(group="domain", name=domain, node=_domain_node(folder), package="_global_")
    search = [f"file://{p}" for p in (*_yours(), folder / "conf") if p.is_dir()]
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        own = [f"domain={domain}", f"hydra.searchpath=[{','.join(search)}]"]
        tree = hydra_compose("config", overrides=[*own, *map(partial(_quoted, root), words)])
    closed = OmegaConf.merge(OmegaConf.structured(root), OmegaConf.to_container(tree))
    for key, item in leaves(root):
        hold(key, OmegaConf.select(closed, key), dict(item.metadata))
    config = OmegaConf.to_object(closed)
    assert isinstance(config, root)
    return config


def _quoted(root: type, word: str) -> str:
    """Text values are quoted, so that a path or an address never meets the override grammar."""
    key, _, value = word.partition("=")
    texts = {name for name, item in leaves(root) if isinstance(_default(item), str)}
    if key not in texts or value[:1] in "'\"":
        return word
    # in a quoted value only backslashes before a quote, or at the end, are special
    escaped = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + (m[2] and "\\'"), value)
    return f"{key}='{escaped}'"


def _domain_node(folder: Path) -> Any:
    """A domain's file may choose from groups and set its own section; anything else would beat the user's words."""
    from omegaconf import OmegaConf
    from yaml import YAMLError

    try:
        node = OmegaConf.load(folder / "domain.yaml")
    except (YAMLError, OSError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())
        raise ConfigError(f"{folder / 'domain.yaml'} cannot be read", hint=said) from error
    alien = {str(key) for key in node} - {"defaults", "domain"}
    if alien:
        raise ConfigError(
            f"{folder.name}/domain.yaml sets {', '.join(sorted(alien))}",
            hint="it may hold `defaults` and `domain` only; put the rest into a choice under conf/",
        )
    return node
