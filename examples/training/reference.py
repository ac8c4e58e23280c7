"""Trains the same decoder with PyTorch on the CPU, in f32, and writes what the tests compare with.

reference.csv  the loss of each step
gradients.csv  of each matrix, at step 0: the norm of its gradient, and three elements

    python3 -m venv target/venv && target/venv/bin/pip install torch==2.8.0 numpy==2.3.4
    target/venv/bin/python examples/training/reference.py
"""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

FOLDER = Path(__file__).parent
BATCH, CONTEXT, WIDTH, LAYERS, HEADS, HEAD_DIM, HIDDEN = 2, 64, 64, 2, 2, 64, 256
STEPS, RATE, BETAS, EPSILON, DECAY = 32, 5e-3, (0.9, 0.95), 1e-8, 0.1


def main():
    torch.use_deterministic_algorithms(True)
    text = (FOLDER / "stories.txt").read_text()
    characters = sorted(set(text))
    tokens = torch.tensor([characters.index(character) for character in text])
    model = draw(shapes(len(characters)))
    optimizer = torch.optim.AdamW(model.values(), lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY)
    losses = []
    for step in range(STEPS):
        starts = random(2**32 - 1 - step * BATCH - np.arange(BATCH)) % (len(tokens) - CONTEXT)
        rows = torch.from_numpy(starts.astype(np.int64))[:, None] + torch.arange(CONTEXT)
        logits = forward(model, tokens[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[rows + 1].flatten())
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            write("gradients.csv", "matrix,norm,first,middle,last", map(summary, model.items()))
        optimizer.step()
        losses.append(f"{step},{loss.item():.7g}")
    write("reference.csv", "step,loss", losses)


def shapes(vocabulary):
    """The matrices, in the order in which their numbers are drawn: name, rows, columns."""
    yield "embedding", WIDTH, vocabulary + CONTEXT
    for layer in range(LAYERS):
        for name in "query", "key", "value":
            yield f"{layer}.{name}", HEADS * HEAD_DIM, WIDTH
        yield f"{layer}.output", WIDTH, HEADS * HEAD_DIM
        yield f"{layer}.up", HIDDEN, WIDTH
        yield f"{layer}.down", WIDTH, HIDDEN
    yield "head", vocabulary, WIDTH


def draw(shapes):
    model, drawn = {}, 0
    for name, rows, columns in shapes:
        bits = random(drawn + np.arange(rows * columns))
        drawn += rows * columns
        uniform = (bits >> 8).astype(np.float32) / np.float32(2**23) - np.float32(1)
        bound = np.float32(1 if name == "embedding" else 1 / np.sqrt(columns))
        model[name] = torch.from_numpy(bound * uniform).reshape(rows, columns).requires_grad_()
    return model


def random(index):
    """32 random bits for each index: the last steps of MurmurHash3."""
    x = index.astype(np.uint32) * np.uint32(0x9E3779B9)
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def forward(model, tokens):
    table, vocabulary = model["embedding"].T, len(model["head"])
    x = F.embedding(tokens, table[:vocabulary]) + table[vocabulary:]
    for layer in range(LAYERS):
        linear = lambda x, name: F.linear(x, model[f"{layer}.{name}"])
        heads = lambda x: x.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
        h = norm(x)
        q, k, v = (heads(linear(h, name)) for name in ("query", "key", "value"))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(o.transpose(1, 2).flatten(2), "output")
        x = x + linear(F.relu(linear(norm(x), "up")).square(), "down")
    return F.linear(norm(x), model["head"])


def norm(x):
    return F.rms_norm(x, (WIDTH,), eps=1e-5)


def summary(item):
    name, matrix = item
    elements = matrix.grad.flatten()
    chosen = elements[[0, len(elements) // 2, -1]].tolist()
    return ",".join([name, *(f"{value:.7g}" for value in [elements.double().norm().item(), *chosen])])


def write(name, head, lines):
    source = f"# PyTorch {torch.__version__} on the CPU, in f32, by reference.py"
    (FOLDER / name).write_text("\n".join([source, head, *lines]) + "\n")


if __name__ == "__main__":
    main()
