"""Every setting of the engine, on one page: type, default, one line of meaning. YAML files only choose.

Plain dataclasses, no configuration library. A component gets its own slice; only `stages/` sees the whole.
"""

from dataclasses import dataclass, field
from typing import Any


def only(default: Any, *kinds: str) -> Any:
    """A setting that is read only when its section's `kind` is one of `kinds`; giving it otherwise is noted."""
    return field(default=default, metadata={"kinds": kinds})


@dataclass
class Model:
    """The policy that we train."""

    kind: str = "tiny"
    """tiny: built offline, random weights; tiny_vl: the same, and it sees pictures; hf: a transformers checkpoint."""
    path: str = only("", "hf")
    """Checkpoint directory or hub name (hf)."""
    hidden: int = only(256, "tiny", "tiny_vl")
    """Width of the residual stream (tiny, tiny_vl)."""
    layers: int = only(3, "tiny", "tiny_vl")
    """Transformer layers (tiny, tiny_vl)."""
    heads: int = only(4, "tiny", "tiny_vl")
    """Attention heads (tiny, tiny_vl)."""
    ffn: int = only(512, "tiny", "tiny_vl")
    """Width of the feed-forward layer (tiny, tiny_vl)."""
    lr: float = 1e-5
    """Peak rate of AdamW in sft that suits this model; `sft.lr` overrides it."""
    rl_lr: float = 1e-6
    """Rate of AdamW in rl that suits this model; `rl.lr` overrides it."""
    vocab: int = only(1024, "tiny", "tiny_vl")
    """Largest vocabulary of the tokenizer that is trained on the distilled text (tiny, tiny_vl)."""
    dtype: str = "bfloat16"
    """Number format of weights while sampling; training keeps float32 masters."""
    device: str = "auto"
    """auto, cpu or cuda."""
    threads: int = 0
    """CPU threads for tensor work; 0: as many as there are cores."""

    @property
    def made(self) -> bool:
        """Whether it is built here, with random weights, from the distilled text."""
        return self.kind in ("tiny", "tiny_vl")


@dataclass
class Teacher:
    """Whom we distil from, and who judges for `credit=teacher`."""

    kind: str = "scripted"
    """scripted: the domain's own; http: an OpenAI-compatible endpoint; hf: a transformers checkpoint."""
    model: str = only("", "http", "hf")
    """Model name sent to the endpoint (http) or checkpoint (hf)."""
    base_url: str = only("", "http")
    """Endpoint, with /v1 (http)."""
    api_key_env: str = only("OPENAI_API_KEY", "http")
    """Name of the environment variable that holds the key (http); the key itself is never stored."""
    error_rate: float = only(0.15, "scripted")
    """Share of attempts in which the scripted teacher goes wrong (scripted)."""
    temperature: float = only(0.7, "http", "hf")
    """Sampling temperature (http, hf)."""
    top_p: float = only(1.0, "http", "hf")
    """Nucleus sampling mass (http, hf)."""
    timeout_s: float = only(120.0, "http")
    """Seconds for one reply (http)."""
    retries: int = only(4, "http")
    """Tries again on 408, 409, 429, 5xx and lost connections (http)."""
    price_in: float = only(0.0, "http")
    """US dollars for a million prompt tokens (http)."""
    price_out: float = only(0.0, "http")
    """US dollars for a million completion tokens (http)."""


@dataclass
class Env:
    """Where sandboxes run."""

    kind: str = "local"
    """local: bubblewrap on this machine; remote: a server, `orchard env serve`."""
    url: str = only("", "remote")
    """Address of the server (remote)."""
    api_key_env: str = only("ORCHARD_ENV_API_KEY", "remote")
    """Name of the environment variable that holds the server's key (remote)."""
    isolation: str = "auto"
    """auto or bwrap: namespaces, proven at start; process: none at all, only when asked for by name."""
    network: str = "none"
    """none; allowlist: what env.allow names; open: any public address; host: this machine's own network, unbounded."""
    allow: list[str] = field(default_factory=list, metadata={"kinds": ("local",)})
    """Rules such as example.org, *.example.org, example.org:8443, 'GET http://example.org' or 10.1.2.3:8080."""
    network_log: str = only("", "local")
    """File for the proxy's decisions, one JSON line each; at most 64 MiB in two files; empty: none is written."""
    concurrency: int = 0
    """Attempts at once; 0: as the tasks advise, else sixteen for each core."""
    memory_mb: int = 1024
    """Memory of one sandbox, MiB."""
    pids: int = 256
    """Processes in one sandbox."""
    cpus: float = 0.0
    """CPU cores of one sandbox; 0: no limit."""
    disk_mb: int = 1024
    """Bytes that one sandbox may write, MiB."""

    def __post_init__(self) -> None:
        _at_least("env.concurrency", self.concurrency, 0)
        _at_least("env.disk_mb", self.disk_mb, 0)


@dataclass
class Harness:
    """The loop between policy and sandbox."""

    kind: str = "mini"
    """mini: one bash tool, one action a turn; react: the tools of the domain, several calls a turn."""
    format: str = "fence"
    """fence: a fenced command in the text (mini); calls: a line of text for each call (react); tool: native calls."""
    prompt: str = "compact"
    """Which prompt files the domain uses: compact (small models) or full."""
    max_steps: int = 6
    """Turns of one attempt."""
    max_time_s: float = 600.0
    """Wall-clock seconds of one attempt."""
    exec_timeout_s: float = 60.0
    """Seconds for one command."""
    max_tokens: int = 256
    """Tokens of one reply."""
    max_context: int = 4096
    """Prompt and reply together, in tokens."""
    observation_chars: int = 10000
    """Longer output is cut to its first and last halves."""
    format_errors: int = 3
    """Unparsable replies in a row that end the attempt."""
    images: int = only(3, "react")
    """Newest images that a policy is shown; older ones leave the prompt, never the record (react)."""

    def __post_init__(self) -> None:
        _at_least("harness.images", self.images, 0)


@dataclass
class Tasks:
    """Which problems. `kind` is one of the domain's own."""

    kind: str = ""
    """Name of the task set."""
    path: str = ""
    """A JSONL, JSON or Parquet file of tasks."""
    limit: int = 0
    """At most so many of each split; 0: all."""
    train: int = 0
    """Tasks to generate for training (generated sets)."""
    eval: int = 0
    """Tasks to generate for evaluation (generated sets)."""
    only: list[str] = field(default_factory=list)
    """Only these ids."""
    families: list[str] = field(default_factory=list)
    """Only these families (generated sets); empty: all."""

    def __post_init__(self) -> None:
        _at_least("tasks.limit", self.limit, 0)
        _at_least("tasks.train", self.train, 0)
        _at_least("tasks.eval", self.eval, 0)


@dataclass
class Domain:
    """Base of a domain's own settings; each domain adds its fields in `recipes/<domain>/__init__.py`."""


@dataclass
class Distill:
    """Let the teacher act and keep what happened."""

    attempts: int = 1
    """Attempts at each task."""
    limit: int = 850
    """Only the first so many training tasks, the rest is held back for rl; 0: all, for both."""
    max_infra_rate: float = 0.2
    """Stop the run when more than this share of attempts ended in an infrastructure or verifier error."""
    infra_retries: int = 2
    """Draws again for an attempt that ended so."""

    def __post_init__(self) -> None:
        _at_least("distill.attempts", self.attempts, 1)
        _at_least("distill.limit", self.limit, 0)
        _share("distill.max_infra_rate", self.max_infra_rate)


@dataclass
class Credit:
    """Where unresolved attempts made progress."""

    kind: str = "branch"
    """teacher: a model judges key steps; branch: measured by forking and finishing; none: no credit."""
    epsilon: float = 0.05
    """Least rise of the value that counts (paper eq. 2)."""
    rule: str = "interval"
    """step: the paper's rule, each step must rise by epsilon; interval: the rise between two anchors must."""
    samples: int = only(2, "branch")
    """Finishes for each anchor (branch)."""
    anchors: int = only(4, "branch")
    """At most so many key steps (branch)."""
    limit: int = 30
    """At most so many unresolved attempts; 0: all."""

    def __post_init__(self) -> None:
        _at_least("credit.samples", self.samples, 1)
        _at_least("credit.anchors", self.anchors, 2)


@dataclass
class Sft:
    """Learn from resolved attempts, and from rising segments of unresolved ones."""

    unresolved: str = "rise"
    """rise: only rising segments; none: leave out; full: all of it (for comparison)."""
    turns: str = "all"
    """all: an example learns every turn of its conversation; last: one example for each turn, which learns that one."""
    per_task: int = 0
    """At most so many resolved attempts of a task, the shortest; 0: all."""
    per_family: int = 0
    """At most so many resolved attempts of a family (a site, for browsers), the shortest; 0: all."""
    tokens: int = 300_000
    """Training budget in tokens, observations included."""
    batch_tokens: int = 2048
    """Tokens of one optimiser step."""
    max_length: int = 4096
    """Longer examples are dropped, counted."""
    optimizer: str = "auto"
    """muon: for matrices, with AdamW for the rest; adamw: for all; auto: muon for model.kind=tiny."""
    lr: float = 0.0
    """Peak rate of AdamW; 0: `model.lr`."""
    muon_lr: float = 1e-2
    """Peak rate of Muon."""
    warmup: float = 0.04
    """Share of steps that warm up; then cosine."""
    min_lr: float = 0.1
    """Last rate as a share of the peak."""
    weight_decay: float = 0.05
    """Decoupled weight decay."""
    grad_clip: float = 1.0
    """Largest gradient norm."""

    def __post_init__(self) -> None:
        _at_least("sft.tokens", self.tokens, 1)
        if self.turns not in ("all", "last"):
            raise ValueError(f"sft.turns ({self.turns}) is neither all nor last")
        _at_least("sft.per_task", self.per_task, 0)
        _at_least("sft.per_family", self.per_family, 0)


@dataclass
class Group:
    """Balanced Adaptive Rollout: how attempts at one task are gathered (paper Alg. 1)."""

    size: int = 8
    """Attempts that the optimiser sees (N)."""
    max: int = 16
    """Budget of attempts (N_max)."""
    stride: int = 4
    """Attempts of one wave (s); less than max, so that stopping early is real."""
    low: float = 0.25
    """Least share of solved attempts in a kept group (rho_min)."""
    high: float = 0.75
    """Largest share (rho_max)."""

    def __post_init__(self) -> None:
        if self.size > self.max:
            raise ValueError(f"rl.group.size ({self.size}) is larger than rl.group.max ({self.max})")
        if self.stride < 1 or self.max % self.stride:
            raise ValueError(f"rl.group.stride ({self.stride}) does not divide rl.group.max ({self.max})")
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(f"rl.group.low ({self.low}) and rl.group.high ({self.high}) must be 0 <= low <= high <= 1")


@dataclass
class Rl:
    """Sample balanced groups and update the policy."""

    steps: int = 6
    """Updates."""
    prompts: int = 12
    """Kept groups of one update."""
    group: Group = field(default_factory=Group)
    baseline: str = "length"
    """group: mean of the kept group (GRPO); all_sampled: of all drawn (Reinforce-Ada); length: by length (OPO)."""
    scale: str = "std"
    """std: divide by the standard deviation (GRPO); none (Dr. GRPO)."""
    normalizer: str = "token"
    """token: mean over all trained tokens (DAPO); sequence: mean in each attempt first (GRPO); constant (Dr. GRPO)."""
    clip_low: float = 0.2
    """Lower clip of the ratio."""
    clip_high: float = 0.28
    """Upper clip (clip-higher)."""
    minibatches: int = 2
    """Optimiser steps for each batch of groups."""
    temperature: float = 1.0
    """Sampling temperature."""
    optimizer: str = "auto"
    """auto, muon or adamw, as in sft."""
    lr: float = 0.0
    """Rate of AdamW; 0: `model.rl_lr`."""
    muon_lr: float = 1e-3
    """Rate of Muon."""
    grad_clip: float = 1.0
    """Largest gradient norm."""
    first_turns: int = 0
    """Turns of an attempt in the first update, growing to harness.max_steps in the last; 0: that many throughout."""
    format_penalty: float = 0.0
    """Taken off the reward of an attempt that ended on unparsable replies (OpenWebRL: 1)."""
    oversample: int = 3
    """Tasks that may be tried for each kept group before the step goes on short."""
    max_infra_rate: float = 0.2
    """Stop when more than this share of a step's attempts ended in an infrastructure or verifier error."""

    def __post_init__(self) -> None:
        _share("rl.max_infra_rate", self.max_infra_rate)
        _at_least("rl.steps", self.steps, 1)
        _at_least("rl.first_turns", self.first_turns, 0)
        _at_least("rl.format_penalty", self.format_penalty, 0)
        _at_least("rl.minibatches", self.minibatches, 1)


@dataclass
class Eval:
    """Measure, with intervals."""

    attempts: int = 4
    """Attempts at each task with temperature above 0; greedy makes one."""
    k: int = 4
    """Largest k of pass@k and pass^k."""
    temperatures: list[float] = field(default_factory=lambda: [0.0, 1.0])
    """One table row block each; 0 is greedy."""
    policy: str = "all"
    """all: each checkpoint of the run; base, sft, rl, teacher, or a checkpoint directory."""
    confidence: float = 0.95
    """Level of every interval."""
    resamples: int = 2000
    """Bootstrap draws."""
    max_infra_rate: float = 0.2
    """No score is printed when more than this share could not be measured."""

    def __post_init__(self) -> None:
        if self.k > self.attempts:
            raise ValueError(f"eval.k ({self.k}) is larger than eval.attempts ({self.attempts})")


@dataclass
class Config:
    """The whole, as composed."""

    run: str = "demo"
    """Name of the run; its files are in <out>/<domain>/<run>/."""
    seed: int = 0
    """Everything random follows from it."""
    out: str = "runs"
    """Folder of all runs."""
    model: Model = field(default_factory=Model)
    teacher: Teacher = field(default_factory=Teacher)
    env: Env = field(default_factory=Env)
    harness: Harness = field(default_factory=Harness)
    harnesses: dict[str, Harness] = field(default_factory=dict, metadata={"derived": True})
    """All harnesses of a run that has several, by name; `harness=[a,b]` or `harness=all` fills it."""
    tasks: Tasks = field(default_factory=Tasks)
    domain: Domain = field(default_factory=Domain)
    distill: Distill = field(default_factory=Distill)
    credit: Credit = field(default_factory=Credit)
    sft: Sft = field(default_factory=Sft)
    rl: Rl = field(default_factory=Rl)
    eval: Eval = field(default_factory=Eval)


def _at_least(key: str, value: float, least: float) -> None:
    if value < least:
        raise ValueError(f"{key} ({value}) is less than {least}")


def _share(key: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{key} ({value}) is not a share between 0 and 1")
