from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers

from orchard_cli.errors import ConfigError, DataError
from orchard_cli.policy import open_policy
from orchard_cli.policy.gguf import import_gguf
from orchard_cli.policy.policy import Sampling
from orchard_cli.policy.weights import load
from orchard_cli.schema import Model
from orchard_cli.trajectory import Message

HIDDEN, FFN, LAYERS, HEADS = 64, 64, 2, 2
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def write_gguf(path: Path, template: str | None = TEMPLATE) -> dict[str, np.ndarray]:
    """A Llama of two layers with 8-bit matrices and a byte-level tokenizer; the weights as they were."""
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "ab", "<|im_start|>", "<|im_end|>"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 257 + [3, 3])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(257)
    writer.add_eos_token_id(258)
    if template:
        writer.add_chat_template(template)
    random = np.random.default_rng(0)
    shapes = {"token_embd": (len(tokens), HIDDEN), "output_norm": (HIDDEN,), "output": (len(tokens), HIDDEN)}
    for i in range(LAYERS):
        shapes |= {f"blk.{i}.{n}_norm": (HIDDEN,) for n in ("attn", "ffn")}
        shapes |= {f"blk.{i}.attn_{n}": (HIDDEN, HIDDEN) for n in ("q", "k", "v", "output")}
        shapes |= {f"blk.{i}.ffn_{n}": (FFN, HIDDEN) for n in ("gate", "up")}
        shapes |= {f"blk.{i}.ffn_down": (HIDDEN, FFN)}
    weights = {}
    for name, shape in shapes.items():
        weights[name] = array = random.normal(0, 0.1, shape).astype(np.float32)
        if len(shape) == 1:
            writer.add_tensor(f"{name}.weight", array + 1)
        else:
            packed = gguf.quantize(array, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(f"{name}.weight", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def test_an_imported_file_is_an_ordinary_checkpoint(tmp_path: Path) -> None:
    weights = write_gguf(tmp_path / "m.gguf")
    out = import_gguf(tmp_path / "m.gguf", tmp_path / "out", dtype="float32")
    assert "quantization_config" not in (out / "config.json").read_text()
    model, tokenizer = load(out)
    found = model.state_dict()["model.layers.1.mlp.down_proj.weight"]
    torch.testing.assert_close(found, torch.tensor(weights["blk.1.ffn_down"]), atol=0.002, rtol=0)
    assert tokenizer.eos_token == "<|im_end|>"
    policy = open_policy(out, Model(dtype="float32"))
    try:
        reply = policy.reply([Message("user", "hi")], sampling=Sampling(max_tokens=5))
        asked = policy.chat.tokenizer.decode(reply.prompt_ids)
    finally:
        policy.close()
    assert asked == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert reply.ids and 1 <= len(reply.ids) <= 5


def test_what_cannot_be_imported(tmp_path: Path) -> None:
    missing = tmp_path / "none.gguf"
    with pytest.raises(DataError) as caught:
        import_gguf(missing, tmp_path / "out")
    assert str(caught.value) == f"cannot read {missing}: No such file or directory"
    other = tmp_path / "other.gguf"
    other.write_bytes(b"PK\x03\x04....")
    with pytest.raises(DataError) as caught:
        import_gguf(other, tmp_path / "out")
    assert str(caught.value) == f"{other} is not a GGUF file: it starts with b'PK\\x03\\x04'"


def test_a_file_that_was_cut_off_or_speaks_no_chat(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    write_gguf(file, template=None)
    with pytest.raises(DataError, match="has no chat template"):
        import_gguf(file, tmp_path / "out")
    file.write_bytes(file.read_bytes()[:3000])
    with pytest.raises(DataError, match="cannot be read"):
        import_gguf(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    with pytest.raises(ConfigError) as caught:
        import_gguf(tmp_path / "m.gguf", tmp_path)
    assert str(caught.value) == f"{tmp_path} is already there"
