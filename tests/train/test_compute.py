import pytest
import torch

from orchard_cli.train import compute as compute_module
from orchard_cli.train.attention import PLAIN, plain_fits
from orchard_cli.train.compute import Compute
from orchard_cli.train.loss import cross_entropy
from orchard_cli.train.rows import collate

from .made import examples, flat, model


def reference(net, one, temperature=1.0):
    """log π of the trained tokens from the model's own full logits, one sequence at a time."""
    logits = net(input_ids=torch.tensor([one.ids]), use_cache=False).logits[0] / temperature
    at = [t for t, w in enumerate(one.weights) if w > 0]
    return torch.log_softmax(logits, -1)[[t - 1 for t in at], [one.ids[t] for t in at]]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_padded_rows_give_what_each_sequence_gives_alone(temperature):
    net, some = model(), examples(6)
    with torch.no_grad():
        got = Compute(net, precision="float32", temperature=temperature).logprobs(collate(some))
        want = torch.cat([reference(net, one, temperature) for one in some])
    torch.testing.assert_close(got, want, atol=2e-6, rtol=1e-5)


def test_what_stands_right_of_a_token_cannot_reach_it():
    net = model()
    one, other = examples(2, seed=4)
    changed = collate([one, other])
    again = torch.where(changed.ids_BT == 0, 7, changed.ids_BT)  # other padding
    for b, e in enumerate((one, other)):
        again[b, : len(e.ids)] = torch.tensor(e.ids)
    compute = Compute(net, precision="float32")
    with torch.no_grad():
        first = compute.logprobs(changed)
        changed.ids_BT.copy_(again)
        torch.testing.assert_close(compute.logprobs(changed), first, atol=0, rtol=0)


def test_plain_attention_is_the_models_own_attention():
    net, some = model(), collate(examples(5))
    assert plain_fits(net, 100)
    mine = Compute(net, precision="float32").logprobs(some)
    mine.sum().backward()
    gradient = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    compute_module.CHUNK, before = 3, compute_module.CHUNK  # the chunked head must not matter either
    try:
        hidden = net.model(input_ids=some.ids_BT, use_cache=False).last_hidden_state.flatten(0, 1)[some.at_N]
        theirs = -torch.nn.functional.cross_entropy(net.lm_head(hidden), some.targets_N, reduction="none")
        theirs.sum().backward()
        for p, g in zip(net.parameters(), gradient, strict=True):
            torch.testing.assert_close(p.grad, g, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(Compute(net, precision="float32").logprobs(some), mine)
    finally:
        compute_module.CHUNK = before
    assert net.config._attn_implementation != PLAIN, "the model is left as it was"


@pytest.mark.parametrize("options", [{"attention_dropout": 0.1}, {"use_sliding_window": True, "sliding_window": 8}])
def test_plain_attention_is_not_used_where_it_would_be_wrong(options):
    assert not plain_fits(model(**options), 10)
    assert not plain_fits(model(), 5000)


@pytest.mark.parametrize("cut", [1, 2, 3, 7])
def test_any_cut_into_micro_batches_has_the_gradient_of_the_whole(cut):
    some = examples(7)
    total = sum(sum(e.weights) for e in some)
    whole, parts = model(), model()
    compute = Compute(whole, precision="float32")
    rows = collate(some)
    compute.backward(cross_entropy(compute.logprobs(rows), rows.weights_N, total))
    compute = Compute(parts, precision="float32")
    for i in range(0, 7, cut):
        rows = collate(some[i : i + cut])
        compute.backward(cross_entropy(compute.logprobs(rows), rows.weights_N, total))
    for a, b in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-6, rtol=1e-4)


def test_the_fast_copy_gives_nearly_the_gradient_of_float32_and_leaves_the_weights_alone():
    some = collate(examples(20))
    gradients = []
    for precision in ("float32", "bfloat16"):
        net = model()
        before = flat(net)
        compute = Compute(net, precision=precision)
        compute.backward(cross_entropy(compute.logprobs(some), some.weights_N, 100.0))
        assert torch.equal(flat(net), before)
        gradients.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
    close = torch.nn.functional.cosine_similarity(*gradients, dim=0)
    assert gradients[1].dtype == torch.float32 and close > 0.999


def test_a_refreshed_copy_follows_the_weights():
    net, some = model(), collate(examples(3))
    compute = Compute(net)
    before = compute.logprobs(some)
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(1.5)
    assert torch.equal(compute.logprobs(some), before)
    compute.refresh()
    assert not torch.equal(compute.logprobs(some), before)
