"""Losses against exact gradients of a tabular policy, and against a second, naive implementation."""

import itertools

import pytest
import torch
from torch.nn.functional import log_softmax

from orchard_cli.errors import ConfigError
from orchard_cli.train.loss import cross_entropy, policy_gradient, token_weights, truncated_importance

V, L = 3, 3
SEQUENCES = list(itertools.product(range(V), repeat=L))
ROW = {prefix: i for i, prefix in enumerate(p for n in range(L) for p in itertools.product(range(V), repeat=n))}
WIDE = {"clip_low": 0.2, "clip_high": 0.28}


def table(seed=0):
    return torch.randn(len(ROW), V, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def logprobs(theta):
    """log π of each token of each of all sequences, shape (27, 3)."""
    rows = torch.tensor([[ROW[y[:t]] for t in range(L)] for y in SEQUENCES])
    return log_softmax(theta, -1)[rows, torch.tensor(SEQUENCES)]


def reward(y):
    return float(y.count(1)) + 2.0 * (y[0] == 2)


REWARDS = torch.tensor([reward(y) for y in SEQUENCES], dtype=torch.float64)


def exact_gradient(theta):
    """∇ Σ_y π(y) R(y), by differentiating the enumerated sum itself."""
    theta = theta.clone().requires_grad_()
    (logprobs(theta).sum(-1).exp() * REWARDS).sum().backward()
    return theta.grad


@pytest.mark.parametrize("baseline", [0.0, 1.7])
def test_the_expected_gradient_is_the_exact_policy_gradient_with_any_baseline(baseline):
    theta = table().requires_grad_()
    new = logprobs(theta)
    share = new.detach().sum(-1).exp()[:, None].expand(-1, L)  # how often each sequence is drawn
    advantage = (REWARDS - baseline)[:, None].expand(-1, L)
    policy_gradient(*(x.flatten() for x in (new, new.detach(), advantage, share)), **WIDE).loss.backward()
    torch.testing.assert_close(-theta.grad, exact_gradient(theta.detach()))


def test_with_importance_the_gradient_is_exact_though_another_policy_drew():
    theta, engine = table().requires_grad_(), logprobs(table(1))
    new = logprobs(theta)
    drawn = engine.sum(-1).exp()[:, None].expand(-1, L)
    whole = (new.detach() - engine).sum(-1).exp()[:, None].expand(-1, L)  # of the sequence: no bias in the prefix
    advantage = REWARDS[:, None].expand(-1, L)
    flat = (x.flatten() for x in (new, new.detach(), advantage, drawn))
    policy_gradient(*flat, **WIDE, importance_N=whole.flatten()).loss.backward()
    torch.testing.assert_close(-theta.grad, exact_gradient(theta.detach()))


def test_cross_entropy_has_the_gradient_of_softmax_minus_target():
    theta = table().requires_grad_()
    weights = torch.rand(27, L, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    cross_entropy(logprobs(theta).flatten(), weights.flatten(), weights.sum().item()).backward()
    want = torch.zeros_like(theta)
    p = torch.softmax(theta.detach(), -1)
    for b, y in enumerate(SEQUENCES):
        for t in range(L):
            row = ROW[y[:t]]
            want[row] += weights[b, t] / weights.sum() * p[row]
            want[row, y[t]] -= weights[b, t] / weights.sum()
    torch.testing.assert_close(theta.grad, want)


def naive(new, old, advantages, lengths, normalizer, low, high, constant, importance):
    """Token by token, from the papers' formulas."""
    parts = []
    for b, length in enumerate(lengths):
        tokens = []
        for t in range(length):
            ratio = torch.exp(new[b][t] - old[b][t])
            a = advantages[b]
            bound = min(max(ratio.item(), 1 - low), 1 + high)
            value = ratio * a if ratio.item() * a <= bound * a else torch.tensor(bound * a)
            tokens.append(value * importance[b][t])
        parts.append(sum(tokens))
    if normalizer == "sequence":
        return -sum(p / n for p, n in zip(parts, lengths, strict=True)) / len(lengths)
    return -sum(parts) / (sum(lengths) if normalizer == "token" else constant * len(lengths))


@pytest.mark.parametrize("normalizer", ["token", "sequence", "constant"])
@pytest.mark.parametrize("cap", [None, 1.1])
def test_values_and_gradients_agree_with_a_naive_implementation(normalizer, cap):
    draw = torch.Generator().manual_seed(3)
    lengths, advantages = [2, 5, 1, 3], [1.3, -0.7, -0.2, 0.4]
    new = [torch.randn(n, generator=draw).requires_grad_() for n in lengths]
    old = [x.detach() + 0.3 * torch.randn(len(x), generator=draw) for x in new]
    engine = [x + 0.3 * torch.randn(len(x), generator=draw) for x in old]
    ones = [torch.ones(n) for n in lengths]
    weight = [truncated_importance(o, e, cap) for o, e in zip(old, engine, strict=True)] if cap else ones
    want = naive(new, old, advantages, lengths, normalizer, 0.2, 0.28, 7, weight)
    wanted = torch.autograd.grad(want, new)
    per_token = token_weights(lengths, normalizer, constant=7)
    repeat = torch.tensor(lengths)
    got = policy_gradient(
        torch.cat(new),
        torch.cat(old),
        torch.tensor(advantages).repeat_interleave(repeat),
        torch.tensor(per_token).repeat_interleave(repeat),
        **WIDE,
        importance_N=torch.cat(weight) if cap else None,
    )
    torch.testing.assert_close(got.loss, want)
    for a, b in zip(torch.autograd.grad(got.loss, new), wanted, strict=True):
        torch.testing.assert_close(a, b)
    assert got.clipped > 0 and got.kl > 0, "the case must reach the clip"


def test_the_clip_stops_only_what_goes_too_far_in_the_wanted_direction():
    new = torch.log(torch.tensor([1.5, 0.5, 1.5, 0.5])).requires_grad_()
    got = policy_gradient(new, torch.zeros(4), torch.tensor([1.0, 1.0, -1.0, -1.0]), torch.ones(4), **WIDE)
    got.loss.backward()
    assert new.grad.bool().tolist() == [False, True, True, False] and got.clipped == 2


def test_truncated_importance_is_capped_and_carries_no_gradient():
    old = torch.tensor([0.0, -1.0]).requires_grad_()
    got = truncated_importance(old, torch.tensor([-3.0, 0.0]), 2.0)
    assert got.tolist() == pytest.approx([2.0, 0.36788], rel=1e-4) and not got.requires_grad


def test_unknown_normalizers_and_missing_constants_are_named():
    with pytest.raises(ConfigError, match="rl.normalizer is `mean`"):
        token_weights([1], "mean")
    with pytest.raises(ConfigError, match="needs a length"):
        token_weights([1], "constant")
