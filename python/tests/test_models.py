"""Models that others wrote, with `attention` in place of PyTorch's: the same loss curve over 20 steps of training."""

import hashlib
import os
import sys
import types
import urllib.error
import urllib.request
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from attention_kernels import attention  # noqa: E402

STEPS, BATCH, TOKENS, WORDS = 20, 4, 96, 50


def losses(model, loss_of):
    """The loss before each step of AdamW on a text that repeats itself."""
    torch.manual_seed(1)
    text = torch.randint(WORDS, (17,)).repeat(TOKENS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    curve = []
    for step in range(STEPS):
        starts = torch.arange(BATCH) * 5 + step
        x = torch.stack([text[start : start + TOKENS] for start in starts])
        y = torch.stack([text[start + 1 : start + 1 + TOKENS] for start in starts])
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return torch.tensor(curve)


def compare(name, theirs, ours):
    largest = (theirs - ours).abs().max().item()
    print(f"{name}: loss {theirs[0]:.4f} to {theirs[-1]:.4f}, largest difference {largest:.2g}")
    assert theirs[-1] < 0.5 * theirs[0]  # it learns, so a wrong gradient would show
    assert largest < 1e-3


def test_gpt2_of_hugging_face():
    transformers = pytest.importorskip("transformers")
    calls = []

    def ours(module, q, k, v, mask, **_):
        calls.append(module)
        return attention(q, k, v, causal=True).transpose(1, 2), None

    transformers.AttentionInterface.register("attention_kernels", ours)

    def curve(implementation):
        torch.manual_seed(0)
        sizes = {"vocab_size": WORDS, "n_positions": TOKENS, "n_embd": 64, "n_layer": 2, "n_head": 4}
        dropout = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
        config = transformers.GPT2Config(**sizes, **dropout, attn_implementation=implementation)
        return losses(transformers.GPT2LMHeadModel(config), loss_of)

    def loss_of(model, x, y):
        return torch.nn.functional.cross_entropy(model(input_ids=x, use_cache=False).logits.flatten(0, 1), y.flatten())

    theirs = curve("sdpa")
    assert not calls
    compare("GPT-2 of Hugging Face", theirs, curve("attention_kernels"))
    assert len(calls) == STEPS * 2  # both layers


def test_nanogpt(monkeypatch):
    nanogpt = load_nanogpt()

    def ours(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False):
        calls.append(1)
        return attention(q, k, v, mask=attn_mask, dropout_p=dropout_p, causal=is_causal)

    def curve():
        torch.manual_seed(0)
        config = nanogpt.GPTConfig(TOKENS, WORDS, n_layer=2, n_head=4, n_embd=64)
        return losses(nanogpt.GPT(config), lambda model, x, y: model(x, y)[1])

    calls = []
    theirs = curve()
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", ours)
    compare("nanoGPT", theirs, curve())
    assert len(calls) == STEPS * 2


def load_nanogpt():
    """nanoGPT's `model.py` at a commit: from the folder that the variable NANOGPT names, or downloaded."""
    commit = "3adf61e154c3fe3fca428ad6bc3818b27a3b8291"
    checksum = "7c01703240dbec5d554527dc666e35b3df8391d0b117fddc07afcf325a21d11c"
    try:
        if folder := os.environ.get("NANOGPT"):
            source = (Path(folder) / "model.py").read_bytes()
        else:
            address = f"https://raw.githubusercontent.com/karpathy/nanoGPT/{commit}/model.py"
            with urllib.request.urlopen(address, timeout=30) as response:
                source = response.read()
    except urllib.error.URLError as error:
        pytest.skip(f"nanoGPT cannot be downloaded: {error}")
    assert hashlib.sha256(source).hexdigest() == checksum
    module = types.ModuleType("nanogpt")
    sys.modules["nanogpt"] = module  # dataclasses look their module up
    exec(source, module.__dict__)
    return module
