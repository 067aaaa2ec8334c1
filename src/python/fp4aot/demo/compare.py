"""The demo's run: quantise, encode, measure, print."""

from __future__ import annotations

import copy
import importlib.resources
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import torch
from torch import Tensor
from tqdm import tqdm

from .. import ops, runtime
from ..cli import table
from ..nn import Format, Fp4Linear, W4A16Linear
from . import chart
from .encoder import LINEARS, Encoder, load_encoder, model_directory, tokenize

BATCH = 32
Fp4Layer = Fp4Linear | W4A16Linear


@dataclass
class Result:
    """What is measured for one format and kind of activations: FP4 (W4A4), or bfloat16 (W4A16)."""

    format: str
    activations: str
    weight_bytes: int = 0
    cosine_mean: float = 0.0
    cosine_min: float = 0.0
    neighbour_agreement: float = 0.0
    topic_agreement: float = 0.0
    seconds: float = 0.0
    kernel_error: float = 0.0  # largest of a layer, against fp64 products of the same FP4 operands
    layer_error: dict[str, float] = field(default_factory=dict)  # "0 query" -> relative error of its output

    @property
    def name(self) -> str:
        """ "NVFP4 W4A4" """
        return f"{self.format.upper()} {'W4A16' if self.activations == 'bf16' else 'W4A4'}"


def load_sentences() -> tuple[list[str], list[int]]:
    """The shipped sentences and the number of each one's topic."""
    text = importlib.resources.files("fp4aot").joinpath("data/sentences.json").read_text(encoding="utf-8")
    topics: dict[str, list[str]] = json.loads(text)
    sentences = [sentence for group in topics.values() for sentence in group]
    return sentences, [number for number, group in enumerate(topics.values()) for _ in group]


def quantize(encoder: Encoder, result: Result) -> Encoder:
    """A copy of the encoder with every linear layer's weight in FP4."""
    quantized = copy.deepcopy(encoder)
    kind = W4A16Linear if result.activations == "bf16" else Fp4Linear
    for layer in quantized.stack():
        for name, linear in layer.linears.items():
            layer.linears[name] = kind.from_linear(cast(torch.nn.Linear, linear), cast(Format, result.format))
    return quantized


def passes(device: torch.device) -> int:
    """How often encode() encodes."""
    return 2 if device.type == "cuda" else 1


def synchronize(device: torch.device) -> None:
    """Waits for the device, so that a clock read afterwards is honest."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def encode(encoder: Encoder, batches: list[tuple[Tensor, Tensor]], bar: Any) -> tuple[Tensor, float]:
    """Embeddings of all batches, and the seconds of the last pass: a GPU's second one, the first warms up."""
    device = batches[0][0].device
    seconds = 0.0
    embeddings: list[Tensor] = []
    for _ in range(passes(device)):
        synchronize(device)
        start = time.perf_counter()
        embeddings = []
        for ids, mask in batches:
            embeddings.append(encoder(ids, mask))
            bar.update()
        synchronize(device)
        seconds = time.perf_counter() - start
    return torch.cat(embeddings), seconds


class LayerErrors:
    """Sums, over the tokens of the fp32 run, how far each FP4 layer's output is from the fp32 layer's on one input."""

    def __init__(self, encoder: Encoder, quantized: Mapping[str, Encoder]) -> None:
        self.encoder = encoder
        self.quantized = {name: {(i, n): m for i, n, m in e.named_linears()} for name, e in quantized.items()}
        self.sums: dict[tuple[str, int, str], Tensor] = {}  # squares of the difference and of the fp32 output

    def run(self, ids: Tensor, mask: Tensor) -> None:
        """One batch; padding does not count."""

        def watch(index: int, name: str) -> Any:
            def hook(module: Any, arguments: tuple[Tensor], output: Tensor) -> None:
                x, exact = arguments[0][mask], output[mask].double()
                for which, layers in self.quantized.items():
                    difference = layers[index, name](x).double() - exact
                    sums = torch.stack([difference.square().sum(), exact.square().sum()])
                    key = (which, index, name)
                    self.sums[key] = self.sums.get(key, torch.zeros_like(sums)) + sums

            return hook

        handles = [m.register_forward_hook(watch(i, n)) for i, n, m in self.encoder.named_linears()]
        try:
            self.encoder(ids, mask)
        finally:
            for handle in handles:
                handle.remove()

    def of(self, quantized: str) -> dict[str, float]:
        """ "<layer> <name>" -> relative error."""
        return {
            f"{index} {name}": float((sums[0] / sums[1]).sqrt())
            for (which, index, name), sums in self.sums.items()
            if which == quantized
        }


def kernel_error(layer: Fp4Layer, seed: int) -> float:
    """Relative error of the product itself: against fp64 arithmetic on the very operands that it was given."""
    generator = torch.Generator().manual_seed(seed)
    weight = layer.dequantized_weight().double()
    x = torch.randn(64, layer.in_features, generator=generator).to(weight.device)
    if isinstance(layer, W4A16Linear):
        a = x.to(torch.bfloat16).double()
    elif layer.format == "nvfp4":
        scale = ops.nvfp4_global_scale(x)
        a = ops.dequantize_nvfp4(*ops.quantize_nvfp4(x, scale), scale, dtype=torch.float32).double()
    else:
        a = ops.dequantize_mxfp4(*ops.quantize_mxfp4(x), dtype=torch.float32).double()
    exact = a @ weight.T + (0 if layer.bias is None else layer.bias.double())
    return float((layer(x).double() - exact).norm() / exact.norm())


def nearest(embeddings: Tensor) -> Tensor:
    """Index of each sentence's most similar other sentence."""
    similarity = embeddings @ embeddings.T
    return similarity.fill_diagonal_(-2).argmax(1)


def choose_device(device: str) -> torch.device:
    """auto: a CUDA device if torch sees one that an image serves, else the CPU."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() and runtime.supports("gemm_nvfp4", "cuda") else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda was given, but torch sees no CUDA device. Use --device cpu, or auto.")
    runtime.image_name(device)  # an error here says why no image serves it
    return torch.device(device, torch.cuda.current_device()) if device == "cuda" else torch.device(device)


def print_results(
    results: list[Result], sentences: int, fp32_bytes: int, fp32_seconds: float, fp32_topic: float, image: str
) -> None:
    """All tables."""
    rows = [["", "fp32", *(r.name for r in results)]]

    def line(label: str, fp32: str, values: list[str]) -> None:
        rows.append([label, fp32, *values])

    line("weight bytes", f"{fp32_bytes:,}", [f"{r.weight_bytes:,}" for r in results])
    line("  smaller than fp32", "-", [f"{fp32_bytes / r.weight_bytes:.2f} x" for r in results])
    line("  smaller than bf16", "-", [f"{fp32_bytes / 2 / r.weight_bytes:.2f} x" for r in results])
    line("embedding cosine to fp32, mean", "1", [f"{r.cosine_mean:.4f}" for r in results])
    line("embedding cosine to fp32, min", "1", [f"{r.cosine_min:.4f}" for r in results])
    same = [1.0, *(r.neighbour_agreement for r in results)]
    topics = [fp32_topic, *(r.topic_agreement for r in results)]
    line("same nearest sentence as fp32", *_first_rest([f"{s * sentences:.0f} of {sentences}" for s in same]))
    line("nearest sentence is of the topic", *_first_rest([f"{t * sentences:.0f} of {sentences}" for t in topics]))
    errors = [list(r.layer_error.values()) for r in results]
    line("layer output error, mean", "0", [f"{100 * sum(e) / len(e):.1f} %" for e in errors])
    line("layer output error, max", "0", [f"{100 * max(e):.1f} %" for e in errors])
    line("error of the product itself", "-", [f"{r.kernel_error:.0e}" for r in results])
    line("seconds for all sentences", f"{fp32_seconds:.3f}", [f"{r.seconds:.3f}" for r in results])
    print(table(rows))
    print("  (W4A4: weights and activations in FP4. W4A16: FP4 weights, bfloat16 activations.)")
    print("  (A few sentences more or less are noise. The product itself: against fp64 on the same operands.)")
    if image == "cpu":
        print("  (The cpu image shows what FP4 does to accuracy; its time says nothing about a GPU's.)")
    for result in results:
        if result.activations != "fp4":
            continue  # those are in the chart
        print(f"\nRelative error of each {result.name} layer's output, in % (same input, fp32 weights = 0)")
        layers = sorted({int(key.split(" ", 1)[0]) for key in result.layer_error})
        print(
            table(
                [["layer", *LINEARS]]
                + [[str(i), *(f"{100 * result.layer_error[f'{i} {name}']:.1f}" for name in LINEARS)] for i in layers]
            )
        )


def _first_rest(values: list[str]) -> tuple[str, list[str]]:
    return values[0], values[1:]


@torch.inference_mode()
def main(device_name: str, format: str, output: str, json_path: str | None) -> int:
    """Runs everything; the exit status."""
    start = time.perf_counter()
    path = chart.output_path(output)
    device = choose_device(device_name)
    image = runtime.image_name(device)
    directory = model_directory()
    sentences, topic_list = load_sentences()
    topics = torch.tensor(topic_list)
    encoder = load_encoder(directory).to(device)
    batches = [(ids.to(device), mask.to(device)) for ids, mask in tokenize(directory, sentences, BATCH)]
    linears = [cast(torch.nn.Linear, module) for _, _, module in encoder.named_linears()]
    fp32_bytes = sum(module.weight.numel() * 4 for module in linears)
    formats = ["nvfp4", "mxfp4"] if format == "both" else [format]
    results = [Result(name, "fp4") for name in formats]
    results += [Result(name, "bf16") for name in formats if runtime.supports(f"gemm_w4a16_{name}", device)]
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(
        f"MiniLM-L6 sentence encoder: {len(linears)} linear layers, {fp32_bytes // 4 / 1e6:.1f} M weights, to FP4.\n"
        f"{len(sentences)} sentences in {int(topics.max()) + 1} topics. "
        f"Image {image} on {where}.\n"
    )

    steps = len(batches) * (passes(device) * (1 + len(results)) + 1) + len(results) * (1 + len(linears))
    with tqdm(total=steps, desc="encoding", leave=False, disable=None) as bar:
        exact, fp32_seconds = encode(encoder, batches, bar)
        exact_nearest = nearest(exact).cpu()
        quantized = {}
        for result in results:
            model = quantized[result.name] = quantize(encoder, result)
            bar.update()
            embeddings, result.seconds = encode(model, batches, bar)
            cosine = (embeddings * exact).sum(1)
            result.cosine_mean, result.cosine_min = float(cosine.mean()), float(cosine.min())
            found = nearest(embeddings).cpu()
            result.neighbour_agreement = float((found == exact_nearest).float().mean())
            result.topic_agreement = float((topics[found] == topics).float().mean())
            layers = [cast(Fp4Layer, module) for _, _, module in model.named_linears()]
            result.weight_bytes = sum(layer.weight_bytes() for layer in layers)
            for seed, layer in enumerate(layers):
                result.kernel_error = max(result.kernel_error, kernel_error(layer, seed))
                bar.update()
        errors = LayerErrors(encoder, quantized)
        for ids, mask in batches:
            errors.run(ids, mask)
            bar.update()
    for result in results:
        result.layer_error = errors.of(result.name)

    fp32_topic = float((topics[exact_nearest] == topics).float().mean())
    print_results(results, len(sentences), fp32_bytes, fp32_seconds, fp32_topic, image)
    chart.draw({r.name: r.layer_error for r in results}, image, path)
    print(f"\nChart of the error of each layer: {path}")
    if json_path:
        data = {"image": image, "fp32_bytes": fp32_bytes, "fp32_seconds": fp32_seconds, "fp32_topic": fp32_topic}
        with open(json_path, "w", encoding="utf-8") as file:
            json.dump(data | {"results": [asdict(result) for result in results]}, file, indent=2)
        print(f"All numbers: {json_path}")
    print(f"Done in {time.perf_counter() - start:.1f} s.")
    return 0
