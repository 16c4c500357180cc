"""How fast the tiny policy answers, and what each part of the engine is worth.

    python bench/policy.py [--conversations 96] [--at-once 48] [--threads 1]

Conversations of four turns with prompts of about 100-250 tokens and replies of 15, sampled from random weights.
CPU seconds are what the process used, so that other load on the machine matters less.
"""

import argparse
import os
import platform
import random
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from orchard_cli import schema
from orchard_cli.policy.dense import DenseForward
from orchard_cli.policy.forward import PlainForward
from orchard_cli.policy.hf import HfPolicy
from orchard_cli.policy.policy import Reply, Sampling
from orchard_cli.policy.tiny import build_model, build_tokenizer
from orchard_cli.trajectory import Message

WORDS = ["total", "count", "left", "right", "price", "width", "result", "index", "order", "queue", "stack", "limit"]


def conversation(number: int) -> list[str]:
    """What the environment says: an issue, a listing, and two short results."""
    draw = random.Random(number)
    names = draw.sample(WORDS, 4)
    lines = [f"def {names[0]}_{names[1]}({names[2]}, {names[3]}):"]
    lines += [f"    {draw.choice(names)} = {names[2]} {draw.choice('+-*')} {draw.randint(1, 99)}" for _ in range(9)]
    listing = "\n".join(f"{i:6d}\t{line}" for i, line in enumerate(lines, 1))
    issue = f"The function {names[0]}_{names[1]} returns a wrong result when {names[2]} is larger than {names[3]}."
    return [f"{issue} Please fix it.\nFile: {names[0]}.py", listing, "(no output)", "1 passed in 0.01s"]


def attempt(policy: HfPolicy, number: int) -> list[Reply]:
    messages: list[Message] = []
    replies: list[Reply] = []
    for text in conversation(number):
        messages.append(Message("user", text))
        previous = replies[-1] if replies else None
        replies.append(policy.reply(messages, sampling=Sampling(max_tokens=15, seed=number), previous=previous))
        messages.append(replies[-1].message)
    return replies


def measure(name: str, policy: HfPolicy, conversations: int, at_once: int) -> None:
    attempt(policy, 10**6)
    wall, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(at_once) as pool:
        replies = [r for rs in pool.map(lambda n: attempt(policy, n), range(conversations)) for r in rs]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    policy.close()
    sampled = sum(len(r.ids or ()) for r in replies)
    prompt = sum(len(r.prompt_ids or ()) for r in replies) / len(replies)
    print(
        f"{name:44} {len(replies) / cpu:6.0f} replies/CPU-s {sampled / cpu:7.0f} tokens/CPU-s"
        f" {len(replies) / wall:6.0f} replies/s   (mean prompt {prompt:.0f} tokens)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=96)
    parser.add_argument("--at-once", type=int, default=48)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    texts = [text for number in range(400) for text in conversation(number)]
    tokenizer = build_tokenizer(texts, schema.Model().vocab)
    model = build_model(schema.Model(), tokenizer, seed=0)
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, torch {torch.__version__},"
        f" {args.threads} thread(s), {model.num_parameters():,} parameters, {args.at_once} conversations at once"
    )
    for _ in range(2):  # twice, for what else runs on the machine changes
        for name, policy in variants(model, tokenizer):
            measure(name, policy, args.conversations, args.at_once)


def variants(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast):  # noqa: ANN201
    for dtype in (torch.float32, torch.bfloat16):
        short = str(dtype).removeprefix("torch.")
        yield f"{short}", HfPolicy(model, tokenizer, "tiny", dtype=dtype)
        forgetful = HfPolicy(model, tokenizer, "tiny", dtype=dtype)
        forgetful._engine._prefixes.memory = 0
        yield f"{short}, conversations not remembered", forgetful
        fits, DenseForward.fits = DenseForward.fits, staticmethod(lambda _: False)  # type: ignore[method-assign]
        plain = HfPolicy(model, tokenizer, "tiny", dtype=dtype)
        DenseForward.fits = fits  # type: ignore[method-assign]
        assert isinstance(plain._engine._forward, PlainForward)
        yield f"{short}, the model's own forward pass", plain
        yield f"{short}, one row at a time", HfPolicy(model, tokenizer, "tiny", dtype=dtype, max_batch=1)


if __name__ == "__main__":
    main()
