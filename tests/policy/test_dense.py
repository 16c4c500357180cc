"""Our own forward pass over rows of different lengths gives what the model gives for each row alone."""

import pytest
import torch
from transformers import PreTrainedModel

from orchard_cli.policy.dense import DenseForward
from orchard_cli.policy.forward import Chunk
from orchard_cli.policy.slots import Slots

# 20 + 44 padded to 2 x 44 = 88; 16 + 16 + 32 padded to 96, as many as 64 tokens filled up to 96 would be; 32 + 20:
# padded 64, and 52 tokens are filled up to 64.
LENGTHS = [(7,), (5, 5, 5), (20, 44), (16, 16, 32), (32, 20), (20, 32), (64, 33, 50), (31, 32), (96, 65)]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_rows_of_any_lengths_are_scored_as_if_alone(model: PreTrainedModel, lengths: tuple[int, ...]) -> None:
    slots = Slots(model)
    slots.reserve(len(lengths), max(lengths))
    rows = [[(7 * row + 3 * i) % 300 for i in range(length)] for row, length in enumerate(lengths)]
    with torch.inference_mode():
        found = DenseForward(model, slots)([Chunk(ids, 0) for ids in rows])
        wanted = torch.stack([model(torch.tensor([ids]), use_cache=False).logits[0, -1] for ids in rows])
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=0)
