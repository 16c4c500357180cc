"""Samples for many conversations at once: requests join and leave a running batch between two tokens.

One worker thread owns the model. Each loop: let waiting requests in (prefill, without what is already known of
their conversation), then one token for every row. A row that ends gives its place to the last one.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from ..errors import AttemptError, PolicyError
from .alone import attends_to_all, sample_alone
from .dense import DenseForward
from .forward import Chunk, Forward, PlainForward
from .prefixes import Key, Prefixes
from .request import Request, Sampled
from .sampler import draw, not_finite
from .slots import Slots
from .vision import Vision, VisionForward

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_QUIET_S, _GATHER_S = 0.002, 0.01
_PREFILL = 8192  # prompt tokens run in one step, unless one prompt alone has more


class Engine:
    """model: a causal language model, taken over by this engine; one whose layers keep another kind of state than
    keys and values of everything before (sliding windows, recurrences) gets one request at a time.
    max_batch: rows at once. memory: bytes for keys and values of running rows, and as much for remembered ones.
    vision: what sees pictures for the model, if it does.
    """

    def __init__(
        self, model: "PreTrainedModel", *, version: int, max_batch: int, memory: int, vision: Vision | None = None
    ):
        self.model, self.version, self.max_batch, self.memory = model, version, max_batch, memory
        self.alone = not attends_to_all(model)
        if not self.alone:
            self._slots, self._prefixes = Slots(model), Prefixes(memory)
            forward = DenseForward if DenseForward.fits(model) else PlainForward
            self._forward: Forward = VisionForward(vision, self._slots) if vision else forward(model, self._slots)
        self._rows: list[Request] = []
        self._waiting: deque[Request] = deque()
        self._orders: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="sampling", daemon=True)
        self._thread.start()

    def sample(self, request: Request) -> Sampled:
        """Wait for the reply. Raises `PolicyError`."""
        with self._wake:
            if self._closed:
                raise _closed()
            self._waiting.append(request)
            self._wake.notify()
        return request.result.result()

    def between(self, order: Callable[[], None]) -> None:
        """Run `order` in the worker while no reply is under way; then everything remembered is forgotten."""
        done: Future[None] = Future()
        with self._wake:
            if self._closed:
                raise _closed()
            self._orders.append((order, done))
            self._wake.notify()
        done.result()

    def close(self) -> None:
        """Fail what is under way and end the worker."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()
        if not self.alone:  # whoever still holds the policy does not hold its memory
            self._prefixes.clear()
            self._slots.drop()

    def _work(self) -> None:
        import torch

        with torch.inference_mode():
            while self._pause():
                try:
                    if self._orders and not self._rows:
                        self._obey()
                    elif self.alone:
                        self._answer_alone()
                    else:
                        self._step()
                except Exception as error:  # noqa: BLE001 - boundary: the callers get it, the worker goes on
                    self._fail(_failed(error))
        self._fail(_closed())

    def _pause(self) -> bool:
        """Wait for something to do; a moment longer when idle, so that a batch can gather. False: closed."""
        with self._wake:
            self._wake.wait_for(lambda: self._closed or self._orders or self._waiting or self._rows)
            if not self._rows and not self._orders:
                until = time.monotonic() + _GATHER_S
                count = 0
                while count < len(self._waiting) < self.max_batch and time.monotonic() < until and not self._closed:
                    count = len(self._waiting)
                    self._wake.wait(_QUIET_S)
            return not self._closed

    def _obey(self) -> None:
        order, done = self._orders.popleft()
        try:
            order()
            if not self.alone:
                self._prefixes.clear()
                self._forward.refresh()
        except Exception as error:  # noqa: BLE001 - boundary: raised where it was ordered
            done.set_exception(error)
        else:
            done.set_result(None)

    def _fail(self, error: AttemptError) -> None:
        with self._wake:
            failed = [*self._rows, *(self._waiting if self._closed else ())]
            self._rows = []
            if self._closed:
                self._waiting.clear()
                for _, done in self._orders:
                    done.set_exception(error)
        if not self.alone:
            self._slots.drop()
        for request in failed:
            if not request.result.done():
                request.result.set_exception(error)

    def _answer_alone(self) -> None:
        with self._wake:
            self._rows = [self._waiting.popleft()]
        self._rows[0].result.set_result(sample_alone(self.model, self._rows[0], self.version))
        self._rows = []

    def _step(self) -> None:
        """Let waiting requests in, and sample one token for every row."""
        new = [] if self._orders else self._entering()
        chunks = [Chunk(r.ids[-1:], r.length - 1, r.images) for r in self._rows]
        first = len(self._rows)
        self._rows += new
        self._slots.reserve(len(self._rows), max(r.length for r in self._rows))
        for row, request in enumerate(new, first):
            skip = 0
            if saved := self._prefixes.get(request.key(request.known)):
                self._slots.load(row, saved)
                skip = request.known
            chunks.append(Chunk(request.prompt[skip:], skip, request.images))
        logits = self._forward(chunks)
        for row, (request, chunk) in enumerate(zip(new, chunks[first:], strict=True), first):
            if request.known and not chunk.start:
                self._prefixes.put(request.key(request.known), self._slots.save(row, request.known))
        for request, (token, logprob) in zip(self._rows, draw(self._rows, logits), strict=True):
            request.ids.append(token)
            request.logprobs.append(logprob)
        self._retire()

    def _entering(self) -> list[Request]:
        """Waiting requests that there is room for. Of those that share a prompt one goes first; when it is in, the
        others find the prompt remembered.
        """
        chosen: list[Request] = []
        sharing: set[Key] = set()
        fresh = 0
        with self._wake:
            for request in list(self._waiting):
                key = request.key(request.known)
                if key in sharing:
                    continue
                fresh += self._unknown(request)
                if not self._room_for([*self._rows, *chosen, request]) or (chosen and fresh > _PREFILL):
                    break
                if key and key not in self._prefixes:
                    sharing.add(key)
                chosen.append(request)
                self._waiting.remove(request)
        return sorted(chosen, key=self._unknown)

    def _unknown(self, request: Request) -> int:
        """Prompt tokens that have to be run."""
        return len(request.prompt) - (request.known if request.key(request.known) in self._prefixes else 0)

    def _room_for(self, rows: list[Request]) -> bool:
        if len(rows) == 1:
            return True
        size = len(rows) * max(r.longest for r in rows) * self._slots.token_bytes
        return len(rows) <= self.max_batch and size <= self.memory

    def _retire(self) -> None:
        """Answer the rows that ended; the last row moves into each gap."""
        for row in reversed(range(len(self._rows))):
            request = self._rows[row]
            if not request.ended:
                continue
            if request.broken:
                request.result.set_exception(not_finite(self.version))
            else:
                known = request.length - 1
                self._prefixes.put(request.key(known), self._slots.save(row, known))
                request.result.set_result(request.sampled(self.version))
            last = self._rows.pop()
            if last is not request:
                self._slots.move(len(self._rows), row, last.length - 1)
                self._rows[row] = last


def _failed(error: Exception) -> AttemptError:
    if isinstance(error, AttemptError):
        return error
    return PolicyError(f"sampling failed: {type(error).__name__}: {error}", code="engine")


def _closed() -> PolicyError:
    return PolicyError("the policy was closed", code="closed", attributable="client", effect="none", retry="never")
