"""Writes fixtures/: what Hugging Face transformers computes with the model in this folder, for tests in other languages.

fixtures.json         prompts: name, text (or null), ids, logits (the name of a tensor), positions (of the logits' rows)
                      greedy: name, text, ids of the prompt, and the ids that follow; it stops after the end of text, and
                      before a choice so close that rounding could turn it
fixtures.safetensors  f32 logits [positions, vocabulary] of each prompt
"""

import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import GPT2LMHeadModel

FOLDER = Path(__file__).parent

PROMPTS = {
    "once": ("Once upon a time", "all"),
    "one_token": ("The", "all"),
    "speech": ('"Please help me,"', "last"),
    "newlines": ("The end.\n\n  Once\t", "last"),
    "unusual_bytes": ("Zoë & the 🦊: “naïve” → 日本\u0000\u007f", "last"),
    "other_text": ("In 1931 the committee adjourned; nothing was decided.", "last"),
}

GREEDY = {
    "once": "Once upon a time",
    "mira": "Once upon a time, a brave fox named Mira lived",
    "speech": '"I will find the',
    "far_away": "Far away,",
    "unusual_bytes": "Zoë & the 🦊",
}
NEW_TOKENS = 200
CLOSE = 2e-3  # twice the error that the logits of another implementation may have


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    model = GPT2LMHeadModel.from_pretrained(FOLDER, attn_implementation="eager").eval()
    context = model.config.n_positions
    greedy = {name: greedily(model, tokenizer.encode(text).ids, NEW_TOKENS) for name, text in GREEDY.items()}

    prompts, tensors = [], {}
    cases = [(name, text, tokenizer.encode(text).ids, rows) for name, text, rows in ((n, *p) for n, p in PROMPTS.items())]
    story = tokenizer.encode(GREEDY["mira"]).ids + greedy["mira"]
    cases.append(("long", None, story[:150], "last"))
    cases.append(("full_context", None, (story * context)[:context], "last"))
    cases.append(("end_of_text", None, [model.config.eos_token_id], "last"))
    for name, text, ids, rows in cases:
        logits = model(torch.tensor([ids])).logits[0]
        positions = list(range(len(ids))) if rows == "all" else [len(ids) - 1]
        tensors[name] = logits[positions].contiguous()
        prompts.append({"name": name, "text": text, "ids": ids, "positions": positions})

    folder = FOLDER / "fixtures"
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "fixtures.safetensors")
    fixtures = {
        "made_by": f"fixtures.py, transformers {transformers.__version__}, torch {torch.__version__}",
        "prompts": prompts,
        "greedy": [
            {"name": name, "text": text, "ids": tokenizer.encode(text).ids, "continuation": greedy[name]}
            for name, text in GREEDY.items()
        ],
    }
    (folder / "fixtures.json").write_text(json.dumps(fixtures, indent=1, ensure_ascii=True) + "\n")


def greedily(model, ids, count):
    """The most probable tokens, one by one, until the end of text or the end of the context."""
    new = []
    while len(new) < count and len(ids) + len(new) < model.config.n_positions:
        logits = model(torch.tensor([ids + new])).logits[0, -1]
        first, second = logits.topk(2).values.tolist()
        if first - second < CLOSE:
            break
        new.append(int(logits.argmax()))
        if new[-1] == model.config.eos_token_id:
            break
    return new


if __name__ == "__main__":
    main()
