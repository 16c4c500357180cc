"""The configuration is closed: whatever is not a setting is refused, with a hint; nothing is silent."""

from pathlib import Path

import pytest

from orchard_cli import schema
from orchard_cli.compose import compose, leaves
from orchard_cli.errors import ConfigError
from orchard_cli.launch import notes
from orchard_cli.runs.rundir import RunDir

BAD = [
    ("rl.grup.max=16", "`rl.grup.max` is not a setting", "did you mean `rl.group.max`?"),
    ("epsilon=0.1", "`epsilon` is not a setting", "did you mean `credit.epsilon`?"),
    ("zzz=1", "`zzz` is not a setting", "`--show` prints every setting"),
    ("+rl.steps=3", "`+rl.steps=3` adds or removes a key; configurations are closed", "write `rl.steps=3`"),
    ("++rl.stps=3", "`++rl.stps=3` adds or removes a key; configurations are closed", "did you mean `rl.steps`?"),
    ("~rl.steps", "`~rl.steps` adds or removes a key; configurations are closed", "write `rl.steps=`"),
    (
        "hydra.run.dir=x",
        "`hydra.run.dir=x`: settings of hydra itself cannot be changed",
        "see `--show` for what can be",
    ),
    ("rl.steps", "`rl.steps` is not of the form KEY=VALUE", "write `rl.steps=VALUE`"),
    ("teacher", "`teacher` is not of the form KEY=VALUE", "write `teacher=CHOICE`"),
    ("rl.steps =3", "`rl.steps =3` has a space before `=`", "write `rl.steps=3`"),
    ("rl.group=3", "`rl.group` is a section, not a setting", "it has: rl.group.size, rl.group.max"),
    ("env=k9s", "`env=k9s`: no env is called `k9s`", "there are: local"),
    ("teacher=openay", "`teacher=openay`: no teacher is called `openay`", "did you mean `openai`?"),
    ("rl.steps=abc", "`rl.steps=abc`: takes a whole number", ""),
    ("rl.steps=1.5", "`rl.steps=1.5`: takes a whole number", ""),
    ("rl.lr=fast", "`rl.lr=fast`: takes a number", ""),
    ("eval.temperatures=[warm]", "`eval.temperatures[0]=warm`: takes a number", ""),
    ("rl.group.size=99", "rl.group.size (99) is larger than rl.group.max (16)", ""),
    ("rl.group.stride=5", "rl.group.stride (5) does not divide rl.group.max (16)", ""),
    ("eval.k=9", "eval.k (9) is larger than eval.attempts (2)", ""),
    ("rl.group.stride=0", "rl.group.stride (0) is less than 1", "it must be at least 1"),
    ("distill.max_infra_rate=2", "distill.max_infra_rate (2.0) is more than 1", "it must be at least 0 and at most 1"),
    ("eval.confidence=1", "eval.confidence (1.0) is not less than 1", "it must be more than 0 and less than 1"),
    ("eval.temperatures=[0,-1]", "eval.temperatures (-1.0) is less than 0", "it must be at least 0"),
    ("eval.temperatures=[]", "eval.temperatures is empty", ""),
    ("teacher.error_rate=nan", "teacher.error_rate (nan) is less than 0", "it must be at least 0 and at most 1"),
    ("credit.kind=guess", "credit.kind is `guess`", "credit.kind is teacher, branch or none"),
    ("tasks.only=x", "`tasks.only=x`: takes a list", "write `tasks.only=[x]`"),
    ("domain.wrds=3", "`domain.wrds` is not a setting", "did you mean `domain.words`?"),
]


@pytest.mark.parametrize(("word", "message", "hint"), BAD, ids=[b[0] for b in BAD])
def test_a_bad_word_is_refused_with_a_hint(echo: Path, word: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose("echo", [word])
    assert str(caught.value) == message
    assert caught.value.hint.startswith(hint)
    assert caught.value.exit_code == 2


def test_a_setting_given_twice_is_refused(echo: Path) -> None:
    with pytest.raises(ConfigError, match="`seed` is given twice: `1` and `2`"):
        compose("echo", ["seed=1", "seed=2"])


def test_good_words_arrive_typed(echo: Path) -> None:
    config = compose("echo", ["seed=7", "rl.group.max=32", "eval.temperatures=[0,0.5]", "domain.words=5"]).config
    assert (config.seed, config.rl.group.max, config.eval.temperatures) == (7, 32, [0.0, 0.5])
    assert config.domain.words == 5


@pytest.mark.parametrize(
    "path", ["a b/c.jsonl", "it's.jsonl", "x=(1),{2}.jsonl", "back\\slash.jsonl", "end\\", "q\\'q"]
)
def test_a_path_never_meets_the_override_grammar(echo: Path, path: str) -> None:
    assert compose("echo", [f"tasks.path={path}"]).config.tasks.path == path


def test_a_choice_of_ones_own_is_found(echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (echo / "mine" / "teacher").mkdir(parents=True)
    (echo / "mine" / "teacher" / "ours.yaml").write_text("kind: http\nbase_url: http://127.0.0.1:1/v1\n")
    monkeypatch.setenv("ORCHARD_CONF", str(echo / "mine"))
    assert compose("echo", ["teacher=ours"]).config.teacher.base_url == "http://127.0.0.1:1/v1"


def test_an_unknown_key_in_a_choice_is_refused(echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (echo / "mine" / "teacher").mkdir(parents=True)
    (echo / "mine" / "teacher" / "ours.yaml").write_text("kind: http\nbase_ulr: x\n")
    monkeypatch.setenv("ORCHARD_CONF", str(echo / "mine"))
    with pytest.raises(ConfigError, match="base_ulr"):
        compose("echo", ["teacher=ours"])


def test_a_domain_file_may_not_set_what_a_user_sets(echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from orchard_cli import compose as module

    with pytest.raises(ConfigError, match="sets eval"):
        (echo / "domain.yaml").write_text("eval: {k: 4}\n")
        module._domain_node(echo)


def test_a_broken_domain_file_is_named(echo: Path) -> None:
    from orchard_cli import compose as module

    (echo / "domain.yaml").write_text("domain: {a: [}\n")
    with pytest.raises(ConfigError, match="domain.yaml cannot be read") as caught:
        module._domain_node(echo)
    assert "line 1" in caught.value.hint


def test_a_folder_of_choices_that_is_not_there_is_named(echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHARD_CONF", str(echo / "nowhere"))
    with pytest.raises(ConfigError, match=r"\$ORCHARD_CONF names .*nowhere, which is no folder"):
        compose("echo", ["seed=1"])


def test_settings_that_nothing_reads_are_named(echo: Path) -> None:
    composed = compose("echo", ["rl.group.max=32", "teacher.base_url=http://x/v1", "seed=1"])
    assert list(notes.unread(composed, ("distill",))) == [
        "note: `rl.group.max` is not read by distill",
        "note: `teacher.base_url` is not read with teacher.kind=scripted; it is with teacher.kind=http",
    ]


def test_a_used_name_with_other_settings_names_the_ways_out(tmp_path: Path) -> None:
    config = schema.Config(out=str(tmp_path))
    run = RunDir.of("echo", config)
    with run.lock():
        assert run.begin("distill", config)
        run.finish("distill", config, {"line": "done"})
        assert not run.begin("distill", config)
        config.distill.attempts = 5
        with pytest.raises(Exception, match=r"was made from other inputs: distill.attempts was 1, is 5") as caught:
            run.begin("distill", config)
        assert "run=NAME" in caught.value.hint and "--fresh" in caught.value.hint
        assert run.begin("distill", config, fresh=True)


def test_speed_settings_are_no_inputs(tmp_path: Path) -> None:
    config = schema.Config(out=str(tmp_path))
    run = RunDir.of("echo", config)
    before = run.inputs("sft", config)
    config.model.threads = 7
    assert run.inputs("sft", config) == before


def test_a_run_in_use_is_refused(tmp_path: Path) -> None:
    config = schema.Config(out=str(tmp_path))
    with RunDir.of("echo", config).lock(), pytest.raises(Exception, match="is in use by another process"):
        RunDir.of("echo", config).lock()


def test_every_number_has_a_limit(echo: Path) -> None:
    bare = [
        key
        for key, item in leaves(schema.Config)
        if item.type in (int, float) and not {"least", "above"} & {k for k, v in item.metadata.items() if v is not None}
    ]
    assert bare == []
