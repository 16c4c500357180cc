"""Grows the token ledger of one conversation, reply by reply, and refuses any history that was rewritten."""

from itertools import groupby

from ..errors import HarnessError
from ..policy.policy import Reply
from ..trajectory import Ledger, Origin, Run, Shown

_ORIGINS = {"t": Origin.TEMPLATE, "e": Origin.ENVIRONMENT}


class LedgerBuilder:
    """Accepts replies in order; `build()` gives the ledgers so far, or none for policies without tokens.

    There is one ledger, until a reply's prompt is `fresh`: it begins another.
    """

    def __init__(self) -> None:
        self._done: list[Ledger] = []
        self._whole = True
        self._begin()

    def _begin(self) -> None:
        self._ids: list[int] = []
        self._runs: list[Run] = []
        self._logprobs: list[float] = []
        self._images: tuple[Shown, ...] = ()

    @property
    def number(self) -> int:
        """Of the ledger that spans point into, from 0."""
        return len(self._done)

    def add(self, reply: Reply) -> tuple[int, int] | None:
        """Append a reply's new prompt tokens and its sampled tokens; the span of the latter, [start, end)."""
        if reply.prompt_ids is None or reply.ids is None or reply.logprobs is None or not self._whole:
            self._whole = False
            return None
        if reply.fresh and self._ids:
            self._done.append(self._ledger())
            self._begin()
        known = len(self._ids)
        new = reply.prompt_ids[known:]
        if list(reply.prompt_ids[:known]) != self._ids:
            raise HarnessError("the prompt does not extend what was sampled before", code="history_rewritten")
        if len(reply.origins) != len(new) or len(reply.logprobs) != len(reply.ids):
            raise HarnessError("the policy's token account is inconsistent", code="token_account")
        for letter, group in groupby(reply.origins):
            origin = _ORIGINS[letter]
            self._runs.append(Run(len(list(group)), origin, mask=origin.value))
        if reply.ids:
            self._runs.append(Run(len(reply.ids), Origin.POLICY, reply.weight_version))
        self._ids += [*new, *reply.ids]
        self._logprobs += reply.logprobs
        self._images = reply.images
        return len(self._ids) - len(reply.ids), len(self._ids)

    def forget(self) -> None:
        """Give up the account: this conversation continues one whose ids are not known here."""
        self._whole = False

    def build(self) -> tuple[Ledger, ...]:
        if not self._whole or not self._ids:
            return ()
        return (*self._done, self._ledger())

    def _ledger(self) -> Ledger:
        return Ledger(tuple(self._ids), tuple(self._runs), tuple(self._logprobs), self._images)
