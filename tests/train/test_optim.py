import pytest
import torch

from orchard_cli.errors import ConfigError
from orchard_cli.train.optim import build, falling, rate

from .made import model


def test_muon_takes_the_hidden_matrices_and_adamw_all_else():
    net = model()
    muon, adamw = build(net, optimizer="muon", lr=1e-3, muon_lr=1e-2).parts
    mine = {id(p) for g in muon.param_groups for p in g["params"]}
    names = {n for n, p in net.named_parameters() if id(p) in mine}
    assert len(names) == 14 and all("proj" in n for n in names)
    rest = [p for g in adamw.param_groups for p in g["params"]]
    assert len(rest) + len(mine) == len(list(net.parameters()))


def test_adamw_alone_takes_everything_and_norms_do_not_decay():
    net = model()
    (adamw,) = build(net, optimizer="adamw", lr=1e-3, muon_lr=0, weight_decay=0.1).parts
    decays = {g["weight_decay"]: {p.ndim for p in g["params"]} for g in adamw.param_groups}
    assert decays == {0.1: {2}, 0.0: {1}}


def test_a_step_scales_every_rate_by_its_own_peak_and_forgets_gradients():
    net = model()
    optim = build(net, optimizer="muon", lr=1e-3, muon_lr=1e-2)
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    optim.step(0.5)
    assert [g["lr"] for part in optim.parts for g in part.param_groups] == [5e-3, 5e-4, 5e-4]
    assert all(p.grad is None for p in net.parameters())


def test_the_rate_rises_and_then_falls_to_its_floor():
    rates = [rate(i, 100, warmup=0.1, floor=0.2) for i in range(100)]
    assert rates[0] == 0.1 and rates[9] == 1.0 and max(rates) == 1.0
    assert rates[-1] == pytest.approx(0.2) and rates[10:] == sorted(rates[10:], reverse=True)
    assert rate(0, 1, warmup=0.04, floor=0.1) == 1.0


def test_rates_of_rl_fall_in_a_straight_line_to_their_floor():
    assert [falling(i, 5, 0.2) for i in range(5)] == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])
    assert falling(0, 1, 0.1) == 1.0


def test_an_unknown_optimizer_is_named():
    with pytest.raises(ConfigError, match="the optimizer is `sgd`"):
        build(model(), optimizer="sgd", lr=1, muon_lr=1)
