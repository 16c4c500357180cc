"""A web of a few pages: search by words, best match first."""

from .scene import Scene, listed, needed, paged
from .state import Row


def web_search(at: Scene, query: str, limit: int) -> str:
    needed(query=query)
    words = query.casefold().split()
    ranked = [(_score(row, words), row["id"], row) for row in at.state.rows("page")]
    found = sorted((-score, url, row) for score, url, row in ranked if score)
    return listed((f"{url} {row['title']}: {row['text'][:80]}" for _, url, row in found), limit or 5, "no pages")


def web_open(at: Scene, url: str, page: int) -> str:
    row = at.state.get("page", url.strip())
    return f"{row['title']}\n\n{paged(row['text'], page)}"


def _score(row: Row, words: list[str]) -> int:
    """How many different words occur; those of the title count double."""
    title, text = row["title"].casefold(), row["text"].casefold()
    return sum(2 * (word in title) + (word in text) for word in words)
