import json
import stat
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from orchard_cli.errors import ConfigError, DataError, RunError
from orchard_cli.policy.tiny import build_model
from orchard_cli.policy.weights import chosen_device, fingerprint, load, number_format, save, threads

from .conftest import SMALL


@pytest.fixture
def saved(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> Path:
    return save(model, tokenizer, tmp_path / "runs" / "checkpoint")


def test_what_is_saved_is_loaded(saved: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> None:
    again, other = load(saved)
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in model.state_dict().items())
    assert again.dtype == torch.float32
    text = "sed -i '3s/a/b/' x.py\n\t<|end|> é"
    assert other(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert (other.chat_template, other.eos_token) == (tokenizer.chat_template, "<|end|>")
    assert again.generation_config.eos_token_id == tokenizer.eos_token_id


def test_weights_are_loaded_in_the_format_asked_for(saved: Path) -> None:
    assert load(saved, dtype="bfloat16", device="cpu")[0].dtype == torch.bfloat16


def test_saving_replaces_the_whole_directory(saved: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    before = fingerprint(saved)
    (saved / "stale").write_text("")
    save(build_model(SMALL, tokenizer, seed=5), tokenizer, saved)
    assert fingerprint(saved) != before
    assert not (saved / "stale").exists()
    assert [p.name for p in saved.parent.iterdir()] == ["checkpoint"]
    assert stat.S_IMODE(saved.stat().st_mode) == 0o755


def test_a_save_that_fails_leaves_the_old_checkpoint(
    saved: Path, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel
) -> None:
    class Full:
        """A tokenizer for which the disk is full."""

        def save_pretrained(self, _: Path) -> None:
            raise OSError(28, "No space left on device")

    before = fingerprint(saved)
    with pytest.raises(RunError) as caught:
        save(build_model(SMALL, tokenizer, seed=5), Full(), saved)  # type: ignore[arg-type]
    assert str(caught.value) == f"{saved} cannot be written: No space left on device"
    assert fingerprint(saved) == before
    assert [p.name for p in saved.parent.iterdir()] == ["checkpoint"]


def test_the_fingerprint_is_of_the_tensors_not_of_their_files(
    saved: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    model.save_pretrained(tmp_path / "sharded", max_shard_size="30KB")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 1
    assert fingerprint(tmp_path / "sharded") == fingerprint(saved)
    assert len(fingerprint(saved)) == 64


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "model.path is empty"),
        ("./nowhere", "there is no checkpoint at ./nowhere"),
        ("/no/such/folder", "there is no checkpoint at /no/such/folder"),
        ("justaname", "there is no checkpoint at justaname"),
    ],
)
def test_a_checkpoint_that_is_not_there(path: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value) == message


def test_a_hub_name_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match="cannot get nobody/nothing from the model hub: ") as caught:
        load("nobody/nothing")
    assert caught.value.hint == "no network? copy the checkpoint here and give model.path=FOLDER"


def test_what_is_not_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a checkpoint: it has no config.json"):
        load(tmp_path)
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(ConfigError, match="is a file, not a checkpoint directory") as caught:
        load(file)
    assert caught.value.hint == f"orchard model import {file}"


def test_an_unknown_architecture(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(config | {"model_type": "quux", "architectures": ["Quux"]}))
    with pytest.raises(ConfigError, match="does not know the architecture"):
        load(saved)


def test_weights_that_were_cut_off(saved: Path) -> None:
    file = saved / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(DataError, match="the weights cannot be read"):
        load(saved)
    with pytest.raises(DataError, match="the weights cannot be read"):
        fingerprint(saved)


def test_pickled_weights_are_never_opened(saved: Path) -> None:
    (saved / "model.safetensors").rename(saved / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="is not a usable checkpoint"):
        load(saved)
    with pytest.raises(DataError, match=r"no \*.safetensors there"):
        fingerprint(saved)


def test_formats_and_devices_have_names() -> None:
    assert number_format("bfloat16") is torch.bfloat16
    for wrong in ("int8", "nn", "quux"):
        with pytest.raises(ConfigError, match=f"model.dtype={wrong} is no number format"):
            number_format(wrong)
    assert chosen_device("cpu").type == "cpu"
    with pytest.raises(ConfigError, match="model.device=warp: "):
        chosen_device("warp")


def test_threads_are_set() -> None:
    before = torch.get_num_threads()
    try:
        assert threads(1) == torch.get_num_threads() == 1
        assert threads(0) >= 1
    finally:
        torch.set_num_threads(before)
