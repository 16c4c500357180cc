"""`--plan`: what a command would do, before anything is spent: tasks, attempts, tokens, time, money."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..compose import compose
from ..console import Console
from ..runs.rundir import RunDir
from ..stages.context import Context
from .local import STAGES, make_context

# Guesses for the defaults on two cores, as `orchard runs show` gave them, until the run itself has better ones.
ATTEMPTS_PER_S = 15.0  # by a script
SAMPLED_PER_S = 6.0  # attempts by the tiny policy
SFT_TOKENS_PER_S = 5000.0
TURNS = 4  # of a typical small attempt; each turn re-reads what came before


@dataclass(frozen=True)
class Estimate:
    """One line of a plan. Tokens are sampled by the policy or, for sft, trained on."""

    stage: str
    tasks: int
    attempts: int
    tokens: int
    seconds: float
    note: str = ""


def plan_stage(domain: str, stage: str, words: Sequence[str], *, json: bool) -> None:
    """Print the plan of a stage, or of the stages that it stands for."""
    console = Console(json_only=json)
    composed = compose(domain, words)
    run = RunDir.of(domain, composed.config)
    context = make_context(composed, run, console)
    plan = [_measured(run, _ESTIMATES[name](context)) for name in STAGES[stage]]
    total = sum(e.seconds for e in plan)
    if json:
        console.data({"stages": [e.__dict__ for e in plan], "seconds": round(total)})
        return
    rows = [[e.stage, f"{e.tasks:,}", f"{e.attempts:,}", f"{e.tokens:,}", _clock(e.seconds), e.note] for e in plan]
    rows.append(
        ["all", "", f"{sum(e.attempts for e in plan):,}", f"{sum(e.tokens for e in plan):,}", _clock(total), ""]
    )
    console.table(f"plan of {run.root}", ("stage", "tasks", "attempts ≤", "tokens ≤", "time ~", ""), rows)


def _measured(run: RunDir, estimate: Estimate) -> Estimate:
    """Replace the guess by the run's own time where the stage has been run before."""
    wall = run.done(estimate.stage).get("summary", {}).get("wall_s") if run.root.exists() else None
    if wall is None:
        return estimate
    return Estimate(**{**estimate.__dict__, "seconds": wall, "note": "done before; time as measured then"})


def _reply_tokens(context: Context) -> int:
    """Tokens that one attempt samples at the most."""
    return context.config.harness.max_steps * context.config.harness.max_tokens


def _distill(context: Context) -> Estimate:
    tasks, config = len(context.distill_tasks()), context.config
    attempts = tasks * config.distill.attempts
    if config.teacher.kind == "scripted":
        return Estimate("distill", tasks, attempts, 0, attempts / ATTEMPTS_PER_S, "the script samples no tokens")
    tokens = attempts * _reply_tokens(context)
    price = tokens * config.teacher.price_out / 1e6
    note = f"completion ≤ ${price:,.2f}, prompts come on top" if price else "time depends on the endpoint"
    return Estimate("distill", tasks, attempts, tokens, attempts * TURNS / context.concurrency * 5.0, note)


def _credit(context: Context) -> Estimate:
    config = context.config
    if config.credit.kind == "none":
        return Estimate("credit", 0, 0, 0, 0.0)
    unresolved = len(context.distill_tasks()) * config.distill.attempts * config.teacher.error_rate
    judged = int(min(unresolved, config.credit.limit or unresolved))
    if config.credit.kind == "teacher":
        return Estimate(
            "credit", judged, judged, judged * 512, judged / context.concurrency * 5.0, "one judgement each"
        )
    attempts = judged * config.credit.anchors * config.credit.samples
    return Estimate("credit", judged, attempts, 0, attempts / ATTEMPTS_PER_S, "forked and finished, if half fail")


def _sft(context: Context) -> Estimate:
    tokens = context.config.sft.tokens
    return Estimate("sft", 0, 0, tokens, tokens / SFT_TOKENS_PER_S, "tokens trained on")


def _rl(context: Context) -> Estimate:
    rl = context.config.rl
    attempts = rl.steps * rl.prompts * rl.group.max * rl.oversample
    tokens = attempts * _reply_tokens(context)
    return Estimate("rl", rl.prompts * rl.steps, attempts, tokens, attempts / rl.oversample / SAMPLED_PER_S)


def _eval(context: Context) -> Estimate:
    tasks, config = len(context.tasks("eval")), context.config.eval
    each = sum(1 if t == 0 else config.attempts for t in config.temperatures)
    policies = 3 if config.policy == "all" else 1
    attempts = tasks * each * policies
    return Estimate("eval", tasks, attempts, attempts * _reply_tokens(context), attempts / SAMPLED_PER_S)


_ESTIMATES = {"distill": _distill, "credit": _credit, "sft": _sft, "rl": _rl, "eval": _eval}


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"
