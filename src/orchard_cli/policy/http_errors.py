"""What can go wrong at a chat endpoint, as `PolicyError`s: whose fault it is and whether trying again helps."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from .. import schema
from ..errors import PolicyError

_OVERFLOW = re.compile(
    r"context[ _](length|window|size)|maximum[ _]context|too many (input )?tokens|prompt is too long|input is too long"
    r"|max_model_len|(input|prompt)[^.]{0,40}(longer|exceed|larger)",
    re.IGNORECASE,
)


class Endpoint:
    """What a message may say about an endpoint: its address without credentials, and never the key."""

    def __init__(self, cfg: schema.Teacher, key: str):
        parts = urlsplit(cfg.base_url)
        self.url = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
        self.model, self.timeout_s, self.retries, self.key_env = cfg.model, cfg.timeout_s, cfg.retries, cfg.api_key_env
        self._secrets = [s for s in (key, parts.password) if s and s != "none"]

    def scrub(self, text: str) -> str:
        """One line of at most 300 characters with every secret replaced."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = " ".join(text.split())
        return text if len(text) <= 300 else text[:300] + " …"


@contextmanager
def translated(endpoint: Endpoint) -> Iterator[None]:
    """Turn the client's exceptions into `PolicyError`s. The cause is dropped: it may carry headers."""
    import openai

    try:
        yield
    except openai.APITimeoutError:
        raise PolicyError(
            f"no reply from {endpoint.url} within {endpoint.timeout_s:g} s", code="http.timeout", retry="same"
        ) from None
    except openai.APIConnectionError as error:
        why = endpoint.scrub(str(error.__cause__ or error))
        raise PolicyError(
            f"cannot reach {endpoint.url}: {why}",
            code="http.unreachable",
            effect="none",
            retry="same",
            hint="is the endpoint running, and is teacher.base_url right?",
        ) from None
    except openai.APIStatusError as error:
        raise _status(endpoint, error.status_code, _said(error)) from None
    except (openai.APIError, ValueError) as error:  # a body that is not JSON, or not an object
        raise malformed(endpoint, str(error)) from None


def malformed(endpoint: Endpoint, raw: Any) -> PolicyError:
    shown = raw if isinstance(raw, str) else json.dumps(raw, default=str)
    return PolicyError(
        f"{endpoint.url} sent what is not a chat completion: {endpoint.scrub(shown)}",
        code="http.malformed",
        retry="same",
    )


def _status(endpoint: Endpoint, status: int, said: str) -> PolicyError:
    said = endpoint.scrub(said)
    if status in (400, 413, 422) and _OVERFLOW.search(said):
        return PolicyError(
            f"the conversation is too long for `{endpoint.model}`: {said}",
            code="context_overflow",
            attributable="model",
            effect="none",
            retry="never",
        )
    if status in (408, 409, 429) or status >= 500:
        return PolicyError(
            f"{endpoint.url} answered {status}, also after {endpoint.retries} retries: {said}",
            code=f"http.{status}",
            effect="none" if status == 429 else "unknown",
            retry="same",
        )
    if status in (401, 403):
        hint = f"check the key in the environment variable {endpoint.key_env}"
        said = f"{endpoint.url} refused the key in {endpoint.key_env} ({status}): {said}"
        return _ours(said, "http.unauthorized", hint)
    if status == 404:
        hint = "check teacher.model, and that teacher.base_url ends as the endpoint wants it, usually in /v1"
        return _ours(f"{endpoint.url} does not know `{endpoint.model}` (404): {said}", "http.not_found", hint)
    return _ours(f"{endpoint.url} refused the request ({status}): {said}", f"http.{status}")


def _ours(message: str, code: str, hint: str = "") -> PolicyError:
    """A fault of the configuration: no attempt can escape it."""
    return PolicyError(message, code=code, attributable="client", effect="none", retry="never", hint=hint)


def _said(error: Any) -> str:
    """The server's own words, from `{"error": {"message": …}}` or whatever else it sent."""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict):
            inner = inner.get("message") or inner
        return inner if isinstance(inner, str) else json.dumps(inner, default=str)
    return str(body or error.message)
