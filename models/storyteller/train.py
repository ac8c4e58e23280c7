"""Trains the storyteller: its tokenizer, then a small GPT-2, on stories that the grammar wrote.

README.md has the exact commands. Everything is seeded; with the same package versions, thread count and kind of CPU the
result is the same. Every story is seen once. A killed run goes on from its last checkpoint when started again.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel

END = "<|endoftext|>"
VOCABULARY = 2048
CONTEXT = 256
BATCH = 16
GROUP = 32 * BATCH  # stories that are sorted by length together, so that a batch has little padding
WARMUP = 100
ADAM_RATE = 2e-3
MUON_RATE = 0.015
TOKENIZER_STORIES = 20_000


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--stories", type=Path, required=True, help="training stories, separated by blank lines")
    arguments.add_argument("--validation", type=Path, required=True, help="held-out stories")
    arguments.add_argument("--work", type=Path, required=True, help="folder for the checkpoint")
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder of the finished model")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--stop", type=int, default=None, help="stop after so many steps (to try things out)")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    options.work.mkdir(parents=True, exist_ok=True)

    stories = read_stories(options.stories)
    tokenizer = train_tokenizer(stories[:TOKENIZER_STORIES])
    tokenizer.save(str(options.work / "tokenizer.json"))
    training = encode(tokenizer, stories)
    validation = encode(tokenizer, read_stories(options.validation))

    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=128, n_layer=5, n_head=4, n_inner=512,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, attn_implementation="sdpa",
    )
    model = GPT2LMHeadModel(config)
    train(model, training, validation, options)

    model.save_pretrained(options.out, safe_serialization=True)
    (options.out / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(str(options.out / "tokenizer.json"))
    (options.out / "training.log").write_text((options.work / "training.log").read_text())


def read_stories(path):
    return path.read_text().rstrip("\n").split("\n\n")


def train_tokenizer(stories):
    """Byte-level BPE as GPT-2's, with the end of text as token 0."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(stories, trainers.BpeTrainer(
        vocab_size=VOCABULARY, min_frequency=2, special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
    ))
    assert tokenizer.get_vocab_size() == VOCABULARY
    return tokenizer


def encode(tokenizer, stories):
    """One list of tokens per story; each ends with the end of text and fits into the context."""
    tokens = [encoding.ids + [0] for encoding in tokenizer.encode_batch(stories)]
    assert max(map(len, tokens)) <= CONTEXT
    return tokens


def batches(stories):
    """Batches of stories of about the same length, in a seeded order; every story once."""
    random = np.random.default_rng(1)
    for start in range(0, len(stories), GROUP):
        group = sorted(stories[start:start + GROUP], key=len)
        of_group = [group[i:i + BATCH] for i in range(0, len(group), BATCH)]
        for index in random.permutation(len(of_group)):
            yield of_group[index]


def loss_of(model, stories):
    """Mean cross-entropy in nats per token; story k's tokens stand at positions 0, 1, … as they do when it is generated."""
    longest = max(map(len, stories))
    inputs = torch.zeros(len(stories), longest, dtype=torch.long)
    targets = torch.full_like(inputs, -100)
    for row, tokens in enumerate(stories):
        inputs[row, :len(tokens)] = torch.tensor(tokens)
        targets[row, :len(tokens) - 1] = inputs[row, 1:len(tokens)]
    logits = model(inputs, use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


@torch.no_grad()
def validate(model, stories):
    """Mean loss per token over all the stories."""
    ordered = sorted(stories, key=len)
    total = tokens = 0
    for start in range(0, len(ordered), 50):
        batch = ordered[start:start + 50]
        count = sum(map(len, batch)) - len(batch)
        total += loss_of(model, batch).item() * count
        tokens += count
    return total / tokens


def train(model, training, validation, options):
    optimizers = [
        Muon([p for name, p in model.transformer.h.named_parameters() if p.ndim == 2]),
        torch.optim.AdamW([
            {"params": [model.transformer.wte.weight, model.transformer.wpe.weight], "weight_decay": 0.0},
            {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0},
        ], lr=ADAM_RATE, betas=(0.9, 0.95), fused=True),
    ]
    schedule = list(batches(training))
    checkpoint = options.work / "checkpoint.pt"
    step, seconds, tokens = 0, 0.0, 0
    log = options.work / "training.log"
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        step, seconds, tokens = saved["step"], saved["seconds"], saved["tokens"]
    else:
        say(log, f"{sum(p.numel() for p in model.parameters())} parameters, {len(training)} stories, {len(schedule)} steps", "w")
    start = time.monotonic() - seconds
    while step < len(schedule):
        rate = min(1.0, (step + 1) / WARMUP) * (1.0 - step / len(schedule))
        optimizers[0].param_groups[0]["lr"] = MUON_RATE * rate
        for group in optimizers[1].param_groups:
            group["lr"] = ADAM_RATE * rate
        batch = schedule[step]
        loss = loss_of(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        step += 1
        tokens += sum(map(len, batch))
        if step % 50 == 0 or step == len(schedule):
            seconds = time.monotonic() - start
            eta = seconds / step * (len(schedule) - step) / 60
            line = f"step {step} loss {loss.item():.4f}"
            if step % 250 == 0 or step == len(schedule):
                line += f" validation {validate(model, validation[:200] if step < len(schedule) else validation):.4f}"
                torch.save({
                    "model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers],
                    "step": step, "seconds": seconds, "tokens": tokens,
                }, checkpoint)
            say(log, f"{line} tokens/s {tokens / seconds:.0f} minutes {seconds / 60:.1f} left {eta:.1f}")
        if step == options.stop:
            break


def say(log, line, mode="a"):
    print(line, flush=True)
    with log.open(mode) as file:
        print(line, file=file)


class Muon(torch.optim.Optimizer):
    """Momentum, then the nearest half-orthogonal matrix (Jordan et al., 2024): far fewer steps than AdamW alone.

    c_attn holds three matrices side by side, for q, k and v; each is made orthogonal by itself.
    """

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": MUON_RATE})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                momentum = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
                momentum.lerp_(parameter.grad, 0.05)
                update = parameter.grad.lerp(momentum, 0.95)
                rows, columns = update.shape
                pieces = update.split(rows, dim=1) if columns == 3 * rows else [update]
                for piece, weight in zip(pieces, parameter.split([p.shape[1] for p in pieces], dim=1)):
                    scale = max(1.0, piece.shape[1] / piece.shape[0]) ** 0.5
                    weight.mul_(1 - group["lr"] * 0.01).add_(orthogonal(piece), alpha=-group["lr"] * scale)


def orthogonal(matrix):
    """Newton–Schulz iteration towards U Vᵀ of the matrix's U S Vᵀ."""
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.T if tall else x


if __name__ == "__main__":
    main()
