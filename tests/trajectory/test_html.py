"""A trajectory as a page: it holds what happened, its pictures and clicks, and nothing in it can act."""

import os
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchard_cli.outcome import Outcome
from orchard_cli.trajectory import Blobs, Executed, Message, Step, Store, ToolCall, Trajectory
from orchard_cli.trajectory.html import html
from orchard_cli.trajectory.pointing import Mark, marks

Make = Callable[..., Trajectory]
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
ALLOWED = {"html", "meta", "title", "style", "h1", "h2", "h3", "p", "strong", "pre", "table", "tr", "th", "td"}
ALLOWED |= {"section", "figure", "img", "i", "b", "svg", "line"}


class Seen(HTMLParser):
    """Every tag with its attributes, and all text outside the style sheet."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return "".join(self.words)


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


@pytest.fixture
def browsed(make: Make, blobs: Blobs) -> Trajectory:
    """Two turns in a browser, with a picture before each."""
    first, second = blobs.put(PNG), blobs.put(PNG + b"1")
    return make(
        messages=(
            Message("system", "You drive a browser."),
            Message("user", "Find the mug.", images=(first,)),
            Message("assistant", "click(point_2d=[500, 250])"),
            Message("user", "clicked", images=(second,)),
            Message("assistant", 'done(response="ok")'),
        ),
        steps=(
            Step(2, "click(point_2d=[500, 250])", 3, Executed(None, "ok", codes=("ok",)), (6, 10), wall_s=0.5),
            Step(4, 'drag(start_point_2d=[0, 0], end_point_2d=[1000, 500])\ndone(response="ok")', -1, None, (14, 18)),
        ),
        grade={"judge": {"judge": "webvoyager", "success": False, "thought": "The <b>price</b> is wrong."}, "n": 3},
    )


def test_pictures_are_in_the_page_with_the_clicks_that_followed_them(browsed: Trajectory, blobs: Blobs) -> None:
    seen = Seen(html(browsed, blobs.get))
    assert [str(i["src"])[:22] for i in seen.all("img")] == ["data:image/png;base64,"] * 2
    assert [i["style"] for i in seen.all("i")] == ["left:50.00%;top:25.00%", "left:0.00%;top:0.00%"]
    assert [(line["x2"], line["y2"]) for line in seen.all("line")] == [("100.00", "50.00")]
    assert "1 click" in seen.text and "2 drag" in seen.text


def test_outcome_verdict_grade_and_tokens_are_told(browsed: Trajectory, blobs: Blobs) -> None:
    text = Seen(html(browsed, blobs.get)).text
    assert "Judge webvoyager: no success" in text and "The <b>price</b> is wrong." in text
    assert "solved, reward 1" in text and "judge.success" in text
    rows = [line for line in text.splitlines() if line.startswith(("1click", "2drag", "  1", "  2"))]
    assert any(row.strip() == "1click(point_2d=[500, 250])ok4stop0.50" for row in rows), rows
    lost = Seen(
        html(
            Trajectory(
                **{f: getattr(browsed, f) for f in browsed.__struct_fields__}
                | {"reward": None, "outcome": Outcome.VERIFIER_ERROR}
            ),
            blobs.get,
        )
    ).text
    assert "verifier_error, no reward" in lost


def test_the_page_forbids_itself_everything_from_outside(browsed: Trajectory, blobs: Blobs) -> None:
    seen = Seen(html(browsed, blobs.get))
    policy = next(m["content"] for m in seen.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert str(policy).startswith("default-src 'none'; img-src data:;")
    assert {tag for tag, _ in seen.tags} <= ALLOWED


HOSTILE = st.one_of(
    st.sampled_from(
        ["</pre><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7*7 }}", "\u202e\x1b[2J"]
    ),
    st.text(max_size=30),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HOSTILE, HOSTILE)
def test_no_text_becomes_markup(make: Make, a: str, b: str) -> None:
    call = ToolCall(a, b, {b: a})
    words = dict.fromkeys(("id", "policy", "stop", "artifact"), a) | dict.fromkeys(("task_id", "harness", "family"), b)
    t = make(
        **words,
        grade={a: {b: a}, "judge": a, "success": True},
        messages=(Message("user", a), Message("assistant", b, a, (call,)), Message("tool", a, tool_call_id=b)),
        steps=(Step(1, a, 2, Executed(None, b), None, a),),
        ledgers=(),
    )
    seen = Seen(html(t))
    assert {tag for tag, _ in seen.tags} <= ALLOWED - {"img", "i", "b", "svg", "line", "figure"}
    assert not any(name.startswith("on") for _, attributes in seen.tags for name in attributes)
    assert "\x1b" not in seen.text and "\u202e" not in seen.text


@pytest.mark.parametrize("damage", ["missing", "svg", "name", "changed"])
def test_a_picture_that_cannot_be_shown_is_named(damage: str, make: Make, blobs: Blobs) -> None:
    sha = {"missing": "0" * 64, "svg": blobs.put(b"<svg onload='x()'/>"), "name": "../../etc/passwd"}.get(damage, "")
    if damage == "changed":
        sha = blobs.put(PNG)
        blobs.path(sha).write_bytes(PNG + b"x")
    seen = Seen(html(make(messages=(Message("user", "x", images=(sha,)), *make().messages[1:])), blobs.get))
    assert not seen.all("img") and f"picture {sha[:12]}:" in seen.text


def test_without_a_store_pictures_are_only_named(browsed: Trajectory) -> None:
    seen = Seen(html(browsed))
    assert not seen.all("img") and seen.text.count("not at hand") == 2


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        ("click(point_2d=[500, 250])", [Mark(1, "click", 50.0, 25.0)]),
        ("click(id=3, point_2d=(12.5, 1000))", [Mark(1, "click", 1.25, 100.0)]),
        ("hover(point_2d=[9999, 0])", [Mark(1, "hover", 100.0, 0.0)]),
        ('write(message="point_2d=[1, 2]")', []),
        ("click(id=3)", []),
        ("click(point_2d=[a, b])", []),
        ("", []),
        ("drag(end_point_2d=[10, 20], start_point_2d=[30, 40])", [Mark(1, "drag", 3.0, 4.0, (1.0, 2.0))]),
        ("click(point_2d=[1,2])\nclick(point_2d=[3,4])", [Mark(1, "click", 0.1, 0.2), Mark(1, "click", 0.3, 0.4)]),
    ],
)
def test_points_are_read_from_actions_and_from_nothing_else(action: str, wanted: list[Mark]) -> None:
    messages = (Message("user", "x", images=("0" * 64,)), Message("assistant", "y"))
    assert marks(messages, [Step(1, action)]) == ({0: wanted} if wanted else {})


def test_without_a_picture_nothing_is_pointed_at() -> None:
    assert marks((Message("user", "x"), Message("assistant", "y")), [Step(1, "click(point_2d=[1, 2])")]) == {}


def show(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orchard_cli", "traj", "show", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=os.environ | {"NO_COLOR": "1"})


def test_the_command_writes_the_page_with_the_runs_pictures(tmp_path: Path, browsed: Trajectory) -> None:
    with Store(tmp_path / "distill" / "trajectories.jsonl.zst") as store:
        store.append(browsed)
    done = show(tmp_path, "--html", "distill/trajectories.jsonl.zst", "-o", "out.html")
    assert done.returncode == 0 and done.stdout == "→ out.html\n", done.stderr
    assert len(Seen((tmp_path / "out.html").read_text()).all("img")) == 2
    assert show(tmp_path, "--html", "distill").returncode == 0 and (tmp_path / "t0.html").exists()
    printed = show(tmp_path, "distill", "--html", "--out", "-")
    assert printed.stdout == (tmp_path / "out.html").read_text()
    refused = show(tmp_path, "distill", "--html", "-o", "no/such/folder.html")
    assert refused.returncode == 1 and "cannot be written" in refused.stderr
    assert show(tmp_path, "distill", "-o", "x.html").returncode == 2
    assert show(tmp_path, "distill", "--html", "--json").returncode == 2
