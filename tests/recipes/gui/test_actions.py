"""What a policy's call comes to before it reaches the browser: hostile arguments get a code."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orchard_cli.recipes.gui.actions import SPECS, TOOLS, Refused, checked

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def test_the_thirteen_tools_of_the_recipe_are_offered() -> None:
    names = [spec["function"]["name"] for spec in SPECS]
    assert names == [
        *("click", "write", "press_keys", "scroll", "wait", "drag", "hover"),
        *("goto_url", "go_back", "new_tab", "switch_tab", "close_tab", "done"),
    ]
    assert all(spec["function"]["parameters"]["additionalProperties"] is False for spec in SPECS)


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("fly", {}, "unknown_tool"),
        ("click", {}, "bad_arguments"),
        ("click", {"id": 1, "point_2d": [1, 2]}, "bad_arguments"),
        ("click", {"id": "button"}, "bad_arguments"),
        ("click", {"id": True}, "bad_arguments"),
        ("click", {"id": 1, "css": "*"}, "bad_arguments"),
        ("click", {"point_2d": [1001, 5]}, "outside"),
        ("click", {"point_2d": [-1, 5]}, "outside"),
        ("click", {"point_2d": [float("nan"), 5]}, "bad_arguments"),
        ("click", {"point_2d": [1, 2, 3]}, "bad_arguments"),
        ("click", {"id": 1, "button": "both"}, "bad_arguments"),
        ("write", {"message": 5}, "bad_arguments"),
        ("write", {"message": "x" * 20_001}, "bad_arguments"),
        ("press_keys", {"keys": ["Frobnicate"]}, "unknown_key"),
        ("press_keys", {"keys": ["a"], "presses": 10**9}, "bad_arguments"),
        ("scroll", {"direction": "sideways"}, "bad_arguments"),
        ("wait", {"seconds": 3600}, "bad_arguments"),
        ("drag", {"start_id": 1}, "bad_arguments"),
        ("goto_url", {"url": "file:///etc/passwd"}, "refused_url"),
        ("goto_url", {"url": "javascript:alert(1)"}, "refused_url"),
        ("goto_url", {"url": "http://x:99999/"}, "refused_url"),
        ("goto_url", {"url": "http://a b/"}, "refused_url"),
    ],
)
def test_a_wrong_call_is_answered_with_a_code(name: str, arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(Refused) as caught:
        checked(name, arguments)
    assert caught.value.code == code


@given(st.sampled_from([*TOOLS, "x"]), st.dictionaries(st.sampled_from(["id", "url", "keys", "message", "x"]), JSON))
def test_no_argument_whatsoever_breaks_the_check(name: str, arguments: dict[str, Any]) -> None:
    try:
        made = checked(name, arguments)
    except Refused:
        return
    assert set(made) <= set(TOOLS[name][1])


def test_keys_have_the_names_that_models_use() -> None:
    assert checked("press_keys", {"keys": "Return"})["keys"] == ["Enter"]
    assert checked("press_keys", {"keys": ["ctrl", "shift", "t"], "is_hotkey": True})["keys"] == [
        "Control",
        "Shift",
        "t",
    ]
    assert checked("press_keys", {"keys": ["ctrl+a"]})["keys"] == ["Control+a"]
    assert checked("press_keys", {"keys": ["+"]})["keys"] == ["+"]


def test_an_address_without_scheme_is_a_secure_one() -> None:
    assert checked("goto_url", {"url": "example.com/a"})["url"] == "https://example.com/a"
