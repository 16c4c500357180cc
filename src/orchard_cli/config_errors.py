"""What the configuration library says → one `error:` line and one `hint:`, in the words of the command line."""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from .errors import ConfigError, OrchardError

_TYPES = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false", "String": "a text"}
_TYPE_ERROR = re.compile(r"Value '(?P<value>.*)' of type '\w+' could not be converted to (?P<type>\w+)")
_KEY = re.compile(r"full_key: (?P<key>\S+)")


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that `word` was probably meant to be, or empty."""
    known = list(known)
    found = difflib.get_close_matches(word, known, 1, 0.6)
    if not found:  # a bare last part: `epsilon` for `credit.epsilon`
        found = [k for k in known if k.rpartition(".")[2] == word]
    return found[0] if found else ""


def refuse_override(word: str, known: Collection[str], groups: Sequence[str]) -> NoReturn:
    """Raise the `ConfigError` for a word that is no override of ours."""
    key, equals, value = word.partition("=")
    plain = key.lstrip("+~")
    if plain != key:
        hint = f"write `{plain}={value}`" if plain in known else _meant(plain, known, groups)
        raise ConfigError(f"`{word}` adds or removes a key; configurations are closed", hint=hint)
    if plain.startswith("hydra"):
        raise ConfigError(f"`{word}`: settings of hydra itself cannot be changed", hint="see `--show` for what can be")
    if not equals and plain in groups:
        raise ConfigError(f"`{word}` is not of the form KEY=VALUE", hint=f"write `{plain}=CHOICE`")
    if not equals:
        hint = f"write `{word}=VALUE`" if word in known else _meant(plain, known, groups)
        raise ConfigError(f"`{word}` is not of the form KEY=VALUE", hint=hint)
    if key.strip() != key:
        raise ConfigError(f"`{word}` has a space before `=`", hint=f"write `{key.strip()}={value}`")
    sections = sorted({k.rpartition(".")[0] for k in known})
    if key in sections:
        inside = ", ".join(k for k in known if k.rpartition(".")[0] == key)
        raise ConfigError(f"`{key}` is a section, not a setting", hint=f"it has: {inside}")
    raise ConfigError(f"`{key}` is not a setting", hint=_meant(plain, known, groups))


def _meant(key: str, known: Collection[str], groups: Sequence[str]) -> str:
    near = nearest(key, [*known, *groups])
    return f"did you mean `{near}`?" if near else "`--show` prints every setting"


@contextmanager
def translate() -> Iterator[None]:
    """Turn exceptions of Hydra, OmegaConf and `__post_init__` into `ConfigError`."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        yield
    except OrchardError:
        raise
    except ValueError as error:
        if isinstance(error, OmegaConfBaseException):
            raise _reword(error) from error
        raise ConfigError(str(error)) from error
    except (HydraException, OmegaConfBaseException) as error:
        raise _reword(error) from error


def _reword(error: BaseException) -> ConfigError:
    cause: BaseException | None = error
    text = str(error)
    while cause:
        text = f"{text}\n{cause}"
        cause = cause.__cause__ or cause.__context__
    wrong, key = _TYPE_ERROR.search(text), _KEY.search(text)
    if wrong:
        want = _TYPES.get(wrong["type"], wrong["type"])
        named = f"{key['key']}={wrong['value']}" if key else wrong["value"]
        return ConfigError(f"`{named}`: takes {want}")
    unknown = re.search(r"Key '(?P<key>[^']+)' (?:not in|is not in struct)", text)
    if unknown and key:
        return ConfigError(f"`{key['key']}` is not a setting", hint="a file under conf/ sets it")
    return ConfigError(str(error).split("\n")[0])
