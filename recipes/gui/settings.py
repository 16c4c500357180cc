"""The settings of this domain: what a policy sees, which tasks of a file are used, and who judges."""

from dataclasses import dataclass, field

from orchard_cli import schema

from .browser import VIEWS
from .judges import JUDGES


@dataclass
class Config(schema.Domain):
    view: str = schema.setting("axtree", of=VIEWS)
    """What the policy sees: axtree (text), screenshot, both, or marks (a screenshot with the elements' numbers)."""
    reuse: int = schema.setting(50, least=1)
    """Attempts that one browser serves, each with a fresh profile; 1: a browser in every attempt's own sandbox."""
    held_out: list[str] = field(default_factory=list)
    """Families that are for evaluation alone."""
    judge: str = schema.setting("auto", of=("auto", "state", *JUDGES))
    """auto: the world's state where it can be read, else the benchmark's own judge; or one of them by name."""
    judge_model: str = ""
    """Model that judges; it must see pictures where the policy does."""
    judge_base_url: str = ""
    """Endpoint of the judge, with /v1; empty: OpenAI's."""
    judge_api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the judge's key."""
    judge_screenshots: int = schema.setting(3, least=0)
    """Last screenshots that the judges webvoyager and deepshop are shown; 0: all."""
    any_certificate: bool = False
    """Open sites whose certificate no authority vouches for: those of one's own (task files)."""
    sites: list[str] = field(default_factory=list)
    """Only tasks at these sites, or below them (task files); empty: all."""
    not_sites: list[str] = field(default_factory=list)
    """No tasks at these sites (task files)."""
    levels: list[str] = field(default_factory=list)
    """Only tasks of these levels: easy, medium, hard (task files of mind2web); empty: all."""
    max_words: int = schema.setting(0, least=0)
    """No tasks with a longer text (task files); 0: all."""
    least_per_site: int = schema.setting(0, least=0)
    """No tasks at sites that have fewer (task files)."""
    most_per_site: int = schema.setting(0, least=0)
    """At most so many tasks of a site (task files); 0: all."""
    expired: str = schema.setting("keep", of=("keep", "drop"))
    """Tasks that ask for dates that have passed: keep, or drop (task files)."""
    alike: float = schema.setting(0.0, least=0, most=1)
    """Of tasks of a site whose words are the same to this share, the first is kept (task files); 0: all."""
