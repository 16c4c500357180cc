import msgspec
import pytest
import torch

from orchard_cli.errors import DataError
from orchard_cli.schema import Rl
from orchard_cli.train.compute import Compute
from orchard_cli.train.optim import build
from orchard_cli.train.rl import update_rl
from orchard_cli.train.rows import collate

from .made import examples, flat, model


def update(groups, *, net=None, seed=0, minibatches=1, **options):
    net = net or model()
    cfg = Rl(minibatches=minibatches, optimizer="adamw", lr=1e-3, normalizer=options.pop("normalizer", "token"))
    optim = build(net, optimizer="adamw", lr=1e-3, muon_lr=0)
    return net, update_rl(net, optim, groups, cfg, seed=seed, precision="float32", **options)


def groups(n=3, **options):
    made = [examples(4, seed=i, **options) for i in range(n)]
    return [[msgspec.structs.replace(e, advantage=a) for e, a in zip(g, (1, -1, 0.5, -0.5), strict=True)] for g in made]


def seen(net, some):
    with torch.no_grad():
        return Compute(net, precision="float32").logprobs(collate(some)).sum().item()


def test_an_update_makes_the_good_likelier_and_the_bad_less_likely():
    g = groups()
    good = [e for x in g for e in x if e.advantage > 0]
    bad = [e for x in g for e in x if e.advantage < 0]
    before = model()
    after, result = update(g, minibatches=2)
    assert seen(after, good) - seen(before, good) > 0 > seen(after, bad) - seen(before, bad)
    assert len(result.losses) == len(result.grad_norms) == 2 and result.kl > 0


def test_on_the_first_step_nothing_is_clipped_and_the_ratio_is_one():
    _, result = update(groups())
    assert result.clip_share == 0 and result.kl < 1e-9 and result.mismatch_mean is None


@pytest.mark.parametrize("normalizer", ["token", "sequence", "constant"])
def test_micro_batches_change_nothing(normalizer):
    one, _ = update(groups(), micro_tokens=10_000, normalizer=normalizer, constant=20)
    many, _ = update(groups(), micro_tokens=1, normalizer=normalizer, constant=20)
    torch.testing.assert_close(flat(one), flat(many), atol=2e-5, rtol=1e-4)


def test_the_gap_between_engine_and_trainer_is_measured_and_corrected():
    net, g = model(), groups(1, engine=True)
    with torch.no_grad():
        found = Compute(net, precision="float32").logprobs(collate(g[0]))
    said = torch.tensor([e.logprobs[t] for e in g[0] for t, w in enumerate(e.weights) if w > 0])
    gap = (found - said).abs()
    corrected, result = update(g, net=net)
    assert result.mismatch_mean == pytest.approx(gap.mean().item(), rel=1e-4)
    assert result.mismatch_max == pytest.approx(gap.max().item(), rel=1e-4)
    assert result.importance_mean == pytest.approx((found - said).exp().clamp(max=2.0).mean().item(), rel=1e-4)
    plain, off = update(g, engine_cap=0)
    assert off.importance_mean is None and off.mismatch_mean and not torch.equal(flat(plain), flat(corrected))


def test_the_temperature_of_sampling_is_that_of_training():
    g = groups(1)
    results = []
    for temperature in (1.0, 0.5):
        net = model()
        cfg = Rl(temperature=temperature, optimizer="adamw")
        results.append(update_rl(net, build(net, optimizer="adamw", lr=0.0, muon_lr=0), g, cfg, seed=0).nll)
    assert results[0] != pytest.approx(results[1], rel=1e-3)


def test_the_same_groups_give_the_same_bits_and_others_do_not():
    a, _ = update(groups(), minibatches=2)
    b, _ = update(groups(), minibatches=2)
    c, _ = update(groups()[:2], minibatches=2)
    assert torch.equal(flat(a), flat(b)) and not torch.equal(flat(a), flat(c))


def test_no_groups_is_an_error():
    with pytest.raises(DataError, match="no group was kept"):
        update([])
