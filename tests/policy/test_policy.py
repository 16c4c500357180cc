from pathlib import Path

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from orchard_cli import schema
from orchard_cli.errors import ConfigError
from orchard_cli.policy import open_policy, open_teacher
from orchard_cli.policy.http import HttpPolicy
from orchard_cli.policy.policy import Sampling
from orchard_cli.policy.weights import save

from .conftest import CORPUS


def test_a_checkpoint_opens_as_a_policy_or_as_a_teacher(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    path = save(model, tokenizer, tmp_path / "sft")
    replies = []
    for policy in (
        open_policy(path, schema.Model(dtype="float32", threads=1), 4, name="sft"),
        open_teacher(schema.Teacher(kind="hf", model=str(path))),
    ):
        replies.append(policy.reply(CORPUS[0][:1], sampling=Sampling(temperature=0.0, max_tokens=4)))
        policy.close()
    assert [r.weight_version for r in replies] == [4, 0]
    assert replies[0].prompt_ids == replies[1].prompt_ids


def test_an_endpoint_opens_as_a_teacher() -> None:
    policy = open_teacher(schema.Teacher(kind="http", model="m", base_url="http://127.0.0.1:1/v1", api_key_env=""))
    policy.close()
    assert isinstance(policy, HttpPolicy) and policy.name == "m"


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        (schema.Teacher(kind="scripted"), "the scripted teacher belongs to the domain"),
        (schema.Teacher(kind="hf"), "teacher.model is empty"),
        (schema.Teacher(kind="oracle"), "teacher.kind=oracle is unknown"),
    ],
)
def test_a_teacher_that_cannot_be_opened(teacher: schema.Teacher, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_teacher(teacher)
    assert str(caught.value) == message
