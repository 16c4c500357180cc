"""When two functions are the same, and which split a function belongs to.

Two functions are the same when their bodies agree after names and literals are taken out: the signature and
its default values do not count, so a body with other names, other constants or another default is no new body.
A split owns every normal form whose hash falls to it. A task is made only from forms that its split owns,
so nothing of the evaluation split (good, buggy or distractor) can be met in training, by construction.
"""

import builtins
import hashlib
import keyword
import re
from functools import lru_cache

from orchard_cli.task import Split

EVAL_PERCENT = 30
CONSTANTS = ("K", "J")  # slots for numbers: the constant of a body, and a wrong one in its place
_TOKEN = re.compile(r'"[^"]*"|(?<![\w.])\d+|[.]?[A-Za-z_]\w*(?:=(?!=))?')
_KEPT = {*keyword.kwlist, *dir(builtins)} - {"_"}


def normal_form(function: str) -> str:
    """The body of a function's source with names numbered by first appearance and literals taken out."""
    names: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        token = match[0]
        if token[0] == '"':
            return "S"
        if token[0].isdigit() or token in CONSTANTS:
            return "N"
        if token[0] == "." or token[-1] == "=" or token in _KEPT:  # methods, keyword arguments, builtins
            return token
        return names.setdefault(token, f"v{len(names)}")

    return _TOKEN.sub(replace, function.split("\n", 1)[1])


@lru_cache(maxsize=65536)
def split_of(form: str) -> Split:
    """The split that owns a normal form; the same on every machine and in every version of Python."""
    digest = hashlib.blake2b(form.encode(), digest_size=4).digest()
    return "eval" if int.from_bytes(digest, "big") % 100 < EVAL_PERCENT else "train"
