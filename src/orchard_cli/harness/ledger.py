"""Grows the token ledger of one conversation, reply by reply, and refuses any history that was rewritten."""

from itertools import groupby

from ..errors import HarnessError
from ..policy.policy import Reply
from ..trajectory import Ledger, Origin, Run

_ORIGINS = {"t": Origin.TEMPLATE, "e": Origin.ENVIRONMENT}


class LedgerBuilder:
    """Accepts replies in order; `build()` gives the ledger so far, or none for policies without tokens."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._runs: list[Run] = []
        self._logprobs: list[float] = []
        self._whole = True

    def add(self, reply: Reply) -> tuple[int, int] | None:
        """Append a reply's new prompt tokens and its sampled tokens; the span of the latter, [start, end)."""
        if reply.prompt_ids is None or reply.ids is None or reply.logprobs is None or not self._whole:
            self._whole = False
            return None
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
        return len(self._ids) - len(reply.ids), len(self._ids)

    def forget(self) -> None:
        """Give up the account: this conversation continues one whose ids are not known here."""
        self._whole = False

    def build(self) -> tuple[Ledger, ...]:
        if not self._whole or not self._ids:
            return ()
        return (Ledger(tuple(self._ids), tuple(self._runs), tuple(self._logprobs)),)
