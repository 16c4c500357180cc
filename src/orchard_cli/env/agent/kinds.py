"""Words of types that mean nothing when a program runs: loading `typing` for them is a tenth of the way to ready."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import NoReturn as NoReturn
    from typing import Protocol as Protocol
else:
    Any = NoReturn = Protocol = object
