"""Every setting of the engine, on one page: type, default, one line of meaning. YAML files only choose.

Plain dataclasses, no configuration library. A component gets its own slice; only `stages/` sees the whole.
"""

from dataclasses import dataclass, field
from typing import Any


def setting(default: Any, *kinds: str, least: float | None = None, **more: Any) -> Any:
    """A setting with what may be given: `least`, `above`, `most`, `below` of a number, `of` (its words) of a text.

    It is read only when its section's `kind` is one of `kinds`, if there are any; giving it otherwise is noted.
    `limits.py` holds every setting to it, those of domains too; a list's items are held to it one by one.
    """
    made = {"default_factory": default} if callable(default) else {"default": default}
    return field(**made, metadata={"kinds": kinds, "least": least, **more})


@dataclass
class Model:
    """The policy that we train."""

    kind: str = setting("tiny", of=("tiny", "tiny_vl", "hf"))
    """tiny: built offline, random weights; tiny_vl: the same, and it sees pictures; hf: a transformers checkpoint."""
    path: str = setting("", "hf")
    """Checkpoint directory or hub name (hf)."""
    hidden: int = setting(256, "tiny", "tiny_vl", least=8)
    """Width of the residual stream (tiny, tiny_vl)."""
    layers: int = setting(3, "tiny", "tiny_vl", least=1)
    """Transformer layers (tiny, tiny_vl)."""
    heads: int = setting(4, "tiny", "tiny_vl", least=1)
    """Attention heads (tiny, tiny_vl)."""
    ffn: int = setting(512, "tiny", "tiny_vl", least=1)
    """Width of the feed-forward layer (tiny, tiny_vl)."""
    lr: float = setting(1e-5, above=0)
    """Peak rate of AdamW in sft that suits this model; `sft.lr` overrides it."""
    rl_lr: float = setting(1e-6, above=0)
    """Rate of AdamW in rl that suits this model; `rl.lr` overrides it."""
    vocab: int = setting(1024, "tiny", "tiny_vl", least=1)
    """Largest vocabulary of the tokenizer that is trained on the distilled text (tiny, tiny_vl)."""
    dtype: str = "bfloat16"
    """Number format of weights while sampling; training keeps float32 masters."""
    device: str = "auto"
    """auto, cpu or cuda."""
    threads: int = setting(0, least=0)
    """CPU threads for tensor work; 0: as many as there are cores."""

    @property
    def made(self) -> bool:
        """Whether it is built here, with random weights, from the distilled text."""
        return self.kind in ("tiny", "tiny_vl")


@dataclass
class Teacher:
    """Whom we distil from, and who judges for `credit=teacher`."""

    kind: str = setting("scripted", of=("scripted", "http", "hf"))
    """scripted: the domain's own; http: an OpenAI-compatible endpoint; hf: a transformers checkpoint."""
    model: str = setting("", "http", "hf")
    """Model name sent to the endpoint (http) or checkpoint (hf)."""
    base_url: str = setting("", "http")
    """Endpoint, with /v1 (http)."""
    api_key_env: str = setting("OPENAI_API_KEY", "http")
    """Name of the environment variable that holds the key (http); the key itself is never stored."""
    error_rate: float = setting(0.15, "scripted", least=0, most=1)
    """Share of attempts in which the scripted teacher goes wrong (scripted)."""
    temperature: float = setting(0.7, "http", "hf", least=0)
    """Sampling temperature (http, hf)."""
    top_p: float = setting(1.0, "http", "hf", above=0, most=1)
    """Nucleus sampling mass (http, hf)."""
    timeout_s: float = setting(120.0, "http", above=0)
    """Seconds for one reply (http)."""
    retries: int = setting(4, "http", least=0)
    """Tries again on 408, 409, 429, 5xx and lost connections (http)."""
    price_in: float = setting(0.0, "http", least=0)
    """US dollars for a million prompt tokens (http)."""
    price_out: float = setting(0.0, "http", least=0)
    """US dollars for a million completion tokens (http)."""


@dataclass
class Env:
    """Where sandboxes run."""

    kind: str = setting("local", of=("local", "remote"))
    """local: bubblewrap on this machine; remote: a server, `orchard env serve`."""
    url: str = setting("", "remote")
    """Address of the server (remote)."""
    api_key_env: str = setting("ORCHARD_ENV_API_KEY", "remote")
    """Name of the environment variable that holds the server's key (remote)."""
    isolation: str = setting("auto", of=("auto", "bwrap", "gvisor", "container", "process"))
    """auto or bwrap: namespaces; gvisor: a kernel of its own; container: an engine's; process: none, by name only."""
    network: str = setting("none", of=("none", "allowlist", "open", "host"))
    """none; allowlist: what env.allow names; open: any public address; host: this machine's own network, unbounded."""
    allow: list[str] = setting(list, "local")
    """Rules such as example.org, *.example.org, example.org:8443, 'GET http://example.org' or 10.1.2.3:8080."""
    network_log: str = setting("", "local")
    """File for the proxy's decisions, one JSON line each; at most 64 MiB in two files; empty: none is written."""
    concurrency: int = setting(0, least=0)
    """Attempts at once; 0: as the tasks advise, else sixteen for each core."""
    memory_mb: int = setting(1024, least=1)
    """Memory of one sandbox, MiB."""
    pids: int = setting(256, least=1)
    """Processes in one sandbox."""
    cpus: float = setting(0.0, least=0)
    """CPU cores of one sandbox; 0: no limit."""
    disk_mb: int = setting(1024, least=1)
    """Bytes that one sandbox may write, MiB."""


@dataclass
class Harness:
    """The loop between policy and sandbox."""

    kind: str = "mini"
    """mini: one bash tool, one action a turn; react: the tools of the domain, several calls a turn."""
    format: str = "fence"
    """fence: a fenced command in the text (mini); calls: a line of text for each call (react); tool: native calls."""
    prompt: str = "compact"
    """Which prompt files the domain uses: compact (small models) or full."""
    max_steps: int = setting(6, least=1)
    """Turns of one attempt."""
    max_time_s: float = setting(600.0, above=0)
    """Wall-clock seconds of one attempt."""
    late: str = setting("failed", of=("failed", "excluded"))
    """What an attempt beyond max_time_s is: failed, or excluded (it took too long here, which says nothing of it)."""
    exec_timeout_s: float = setting(60.0, above=0)
    """Seconds for one command."""
    max_tokens: int = setting(256, least=1)
    """Tokens of one reply."""
    max_context: int = setting(4096, least=1)
    """Prompt and reply together, in tokens."""
    observation_chars: int = setting(10000, least=1)
    """Longer output is cut to its first and last halves."""
    format_errors: int = setting(3, least=1)
    """Unparsable replies in a row that end the attempt."""
    images: int = setting(3, "react", least=0)
    """Newest images that a policy is shown; older ones leave the prompt, never the record (react)."""


@dataclass
class Tasks:
    """Which problems. `kind` is one of the domain's own."""

    kind: str = ""
    """Name of the task set."""
    path: str = ""
    """A JSONL, JSON or Parquet file of tasks."""
    limit: int = setting(0, least=0)
    """At most so many of each split; 0: all."""
    train: int = setting(0, least=0)
    """Tasks to generate for training (generated sets)."""
    eval: int = setting(0, least=0)
    """Tasks to generate for evaluation (generated sets)."""
    only: list[str] = field(default_factory=list)
    """Only these ids."""
    families: list[str] = field(default_factory=list)
    """Only these families (generated sets); empty: all."""


@dataclass
class Domain:
    """Base of a domain's own settings; each domain adds its fields in `recipes/<domain>/__init__.py`."""


@dataclass
class Distill:
    """Let the teacher act and keep what happened."""

    attempts: int = setting(1, least=1)
    """Attempts at each task."""
    limit: int = setting(850, least=0)
    """Only the first so many training tasks, the rest is held back for rl; 0: all, for both."""
    max_infra_rate: float = setting(0.2, least=0, most=1)
    """Stop the run when more than this share of attempts ended in an infrastructure or verifier error."""
    infra_retries: int = setting(2, least=0)
    """Draws again for an attempt that ended so."""


@dataclass
class Credit:
    """Where unresolved attempts made progress."""

    kind: str = setting("branch", of=("teacher", "branch", "none"))
    """teacher: a model judges key steps; branch: measured by forking and finishing; none: no credit."""
    epsilon: float = setting(0.05, least=0, most=1)
    """Least rise of the value that counts (paper eq. 2)."""
    rule: str = setting("interval", of=("step", "interval"))
    """step: the paper's rule, each step must rise by epsilon; interval: the rise between two anchors must."""
    samples: int = setting(2, "branch", least=1)
    """Finishes for each anchor (branch)."""
    anchors: int = setting(4, "branch", least=2)
    """At most so many key steps (branch)."""
    limit: int = setting(30, least=0)
    """At most so many unresolved attempts; 0: all."""


@dataclass
class Sft:
    """Learn from resolved attempts, and from rising segments of unresolved ones."""

    unresolved: str = setting("rise", of=("rise", "none", "full"))
    """rise: only rising segments; none: leave out; full: all of it (for comparison)."""
    turns: str = setting("all", of=("all", "last"))
    """all: an example learns every turn of its conversation; last: one example for each turn, which learns that one."""
    per_task: int = setting(0, least=0)
    """At most so many resolved attempts of a task, the shortest; 0: all."""
    per_family: int = setting(0, least=0)
    """At most so many resolved attempts of a family (a site, for browsers), the shortest; 0: all."""
    tokens: int = setting(300_000, least=1)
    """Training budget in tokens, observations included."""
    batch_tokens: int = setting(2048, least=1)
    """Tokens of one optimiser step."""
    max_length: int = setting(4096, least=2)
    """Longer examples are dropped, counted."""
    optimizer: str = setting("auto", of=("auto", "muon", "adamw"))
    """muon: for matrices, with AdamW for the rest; adamw: for all; auto: muon for model.kind=tiny."""
    lr: float = setting(0.0, least=0)
    """Peak rate of AdamW; 0: `model.lr`."""
    muon_lr: float = setting(1e-2, above=0)
    """Peak rate of Muon."""
    warmup: float = setting(0.04, least=0, most=1)
    """Share of steps that warm up; then cosine."""
    min_lr: float = setting(0.1, least=0, most=1)
    """Last rate as a share of the peak."""
    weight_decay: float = setting(0.05, least=0)
    """Decoupled weight decay."""
    grad_clip: float = setting(1.0, above=0)
    """Largest gradient norm."""


@dataclass
class Group:
    """Balanced Adaptive Rollout: how attempts at one task are gathered (paper Alg. 1)."""

    size: int = setting(8, least=2)
    """Attempts that the optimiser sees (N)."""
    max: int = setting(16, least=2)
    """Budget of attempts (N_max)."""
    stride: int = setting(4, least=1)
    """Attempts of one wave (s); less than max, so that stopping early is real."""
    low: float = setting(0.25, least=0, most=1)
    """Least share of solved attempts in a kept group (rho_min)."""
    high: float = setting(0.75, least=0, most=1)
    """Largest share (rho_max)."""

    def __post_init__(self) -> None:
        if self.size > self.max:
            raise ValueError(f"rl.group.size ({self.size}) is larger than rl.group.max ({self.max})")
        if self.max % self.stride:
            raise ValueError(f"rl.group.stride ({self.stride}) does not divide rl.group.max ({self.max})")
        if self.low > self.high:
            raise ValueError(f"rl.group.low ({self.low}) is larger than rl.group.high ({self.high})")


@dataclass
class Rl:
    """Sample balanced groups and update the policy."""

    steps: int = setting(6, least=1)
    """Updates."""
    prompts: int = setting(12, least=1)
    """Kept groups of one update."""
    group: Group = field(default_factory=Group)
    baseline: str = setting("length", of=("group", "all_sampled", "length"))
    """group: mean of the kept group (GRPO); all_sampled: of all drawn (Reinforce-Ada); length: by length (OPO)."""
    scale: str = setting("std", of=("std", "none"))
    """std: divide by the standard deviation (GRPO); none (Dr. GRPO)."""
    normalizer: str = setting("token", of=("token", "sequence", "constant"))
    """token: mean over all trained tokens (DAPO); sequence: mean in each attempt first (GRPO); constant (Dr. GRPO)."""
    clip_low: float = setting(0.2, above=0, most=1)
    """Lower clip of the ratio."""
    clip_high: float = setting(0.28, above=0)
    """Upper clip (clip-higher)."""
    minibatches: int = setting(2, least=1)
    """Optimiser steps for each batch of groups."""
    temperature: float = setting(1.0, above=0)
    """Sampling temperature."""
    optimizer: str = setting("auto", of=("auto", "muon", "adamw"))
    """auto, muon or adamw, as in sft."""
    lr: float = setting(0.0, least=0)
    """Rate of AdamW; 0: `model.rl_lr`."""
    muon_lr: float = setting(1e-3, above=0)
    """Rate of Muon."""
    min_lr: float = setting(0.1, least=0, most=1)
    """Rates of the last update as a share of those of the first; they fall in a straight line."""
    grad_clip: float = setting(1.0, above=0)
    """Largest gradient norm."""
    first_turns: int = setting(0, least=0)
    """Turns of an attempt in the first update, growing to harness.max_steps in the last; 0: that many throughout."""
    format_penalty: float = setting(0.0, least=0)
    """Taken off the reward of an attempt that ended on unparsable replies (OpenWebRL: 1)."""
    oversample: int = setting(3, least=1)
    """Tasks that may be tried for each kept group before the step goes on short."""
    max_infra_rate: float = setting(0.2, least=0, most=1)
    """Stop when more than this share of a step's attempts ended in an infrastructure or verifier error."""


@dataclass
class Eval:
    """Measure, with intervals."""

    attempts: int = setting(4, least=1)
    """Attempts at each task with temperature above 0; greedy makes one."""
    k: int = setting(4, least=1)
    """Largest k of pass@k and pass^k."""
    temperatures: list[float] = setting(lambda: [0.0, 1.0], least=0)
    """One table row block each; 0 is greedy."""
    policy: str = "all"
    """all: each checkpoint of the run; base, sft, rl, teacher, or a checkpoint directory."""
    confidence: float = setting(0.95, above=0, below=1)
    """Level of every interval."""
    resamples: int = setting(2000, least=1)
    """Bootstrap draws."""
    max_infra_rate: float = setting(0.2, least=0, most=1)
    """No score is printed when more than this share could not be measured."""

    def __post_init__(self) -> None:
        if self.k > self.attempts:
            raise ValueError(f"eval.k ({self.k}) is larger than eval.attempts ({self.attempts})")
        if not self.temperatures:
            raise ValueError("eval.temperatures is empty")


@dataclass
class Config:
    """The whole, as composed."""

    run: str = "demo"
    """Name of the run; its files are in <out>/<domain>/<run>/."""
    seed: int = setting(0, least=0)
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
