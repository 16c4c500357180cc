import pytest
import torch

from orchard_cli.errors import DataError, RunError
from orchard_cli.schema import Sft
from orchard_cli.train.sft import train_sft

from .made import examples, flat, model

CFG = Sft(tokens=600, batch_tokens=60, optimizer="muon", lr=2e-3, muon_lr=2e-2)


class Killed(Exception):
    pass


def train(where=None, *, kill_at=0, cfg=CFG, seed=0, data=None, **options):
    net, reports = model(), []

    def on_step(report):
        reports.append(report)
        if report.step == kill_at:
            raise Killed

    result = train_sft(net, data or examples(9), cfg, seed=seed, on_step=on_step, checkpoint_dir=where, **options)
    return net, result, reports


def test_the_loss_falls_and_every_step_is_reported_with_its_tokens():
    _, result, reports = train(cfg=Sft(tokens=6000, batch_tokens=60, optimizer="muon", lr=2e-3, muon_lr=2e-2))
    assert sum(result.losses[-5:]) < 0.8 * sum(result.losses[:5])
    assert [r.step for r in reports] == list(range(1, result.steps + 1))
    assert sum(r.tokens for r in reports) == result.tokens == reports[-1].tokens_done >= 6000
    assert sum(r.trained for r in reports) == result.trained


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_killed_after_any_step_and_started_again_it_ends_in_the_same_bits(tmp_path, precision):
    want, whole, _ = train(precision=precision)
    for kill_at in range(1, whole.steps):
        where = tmp_path / str(kill_at)
        with pytest.raises(Killed):
            train(where, kill_at=kill_at, save_every=2, precision=precision)
        got, result, _ = train(where, save_every=2, precision=precision)
        assert result.resumed_at == kill_at // 2 * 2
        assert torch.equal(flat(got), flat(want)), f"killed after step {kill_at}"
        assert result.losses == whole.losses and result.trained == whole.trained


def test_a_finished_run_is_not_trained_again(tmp_path):
    first, whole, _ = train(tmp_path)
    again, result, reports = train(tmp_path)
    assert not reports and result.resumed_at == whole.steps and torch.equal(flat(first), flat(again))


def test_a_state_of_another_run_or_a_broken_one_is_refused(tmp_path):
    train(tmp_path)
    with pytest.raises(DataError, match="belongs to a training run with other"):
        train(tmp_path, seed=1)
    with pytest.raises(DataError, match="belongs to a training run with other"):
        train(tmp_path, data=examples(9, seed=1))
    state = tmp_path / "trainer.pt"
    state.write_bytes(state.read_bytes()[:500])
    with pytest.raises(DataError, match="cannot be read"):
        train(tmp_path)


def test_without_examples_or_with_a_broken_gradient_it_stops():
    with pytest.raises(DataError, match="nothing to learn from"):
        train_sft(model(), [], CFG, seed=0)
    net = model()
    with torch.no_grad():
        net.model.norm.weight.fill_(float("nan"))
    with pytest.raises(RunError, match="gradient norm is nan"):
        train_sft(net, examples(3), CFG, seed=0)
