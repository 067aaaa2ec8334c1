"""Errors of the C library and of the torch ops in the Python API's terms: they name the fields of the C structs and the
arguments of the torch schemas, which are not always those of the Python functions."""

from __future__ import annotations

import re

_QUANTIZE = {"input": "x", "codes": "out[0] (codes)", "scales": "out[1] (scales)"}
_GEMM = {"a_codes": "a", "b_codes": "b", "prepared": "b", "d": "out"}

# By the beginning of the op's name: what its arguments are called in Python.
_ARGUMENTS: dict[str, dict[str, str]] = {
    "quantize_": _QUANTIZE,
    "silu_mul_quantize_": _QUANTIZE,
    "rmsnorm_quantize_": _QUANTIZE,
    "dequantize_": {"output": "out"},
    "nvfp4_global_scale": {"input": "x", "global_scale": "out"},
    "swizzle_scales": {"linear": "scales", "swizzled": "out"},
    "unswizzle_scales": {"swizzled": "scales", "linear": "out"},
    "prepare_w4a16_": {"codes": "b", "scales": "b_scales", "prepared": "out"},
    "restore_w4a16_": {"prepared": "data"},
    "gemm_": _GEMM,
}
# "op: name (out[0])_stride", where the op's own name and the last two may be missing.
_HEAD = re.compile(
    r"(?P<op>\w+): (?P<name>[a-z_]+?)(?P<stride>_stride)?(?: \(out(?:\[(?P<index>[01])\])?(?P<out>\)))?(?= )"
)
_COPY = re.compile(r" (?:Pass (?:a copy|a contiguous copy|\.contiguous\(\))|Copy the view\b).*$")


def is_output(name: str) -> bool:
    """Whether an argument of this name is written to."""
    return (name.startswith("out") and not name.startswith("out_")) or name == "residual"


def give(name: str, kind: str) -> str:
    """The advice for an output: a copy made for the call would get the result, and nobody would see it."""
    return f"Give {kind} {name.partition(' ')[0]} (a copy would get the result instead)."


def in_python(text: str) -> str:
    """``text`` with the Python function's names; what begins otherwise than those messages is returned as it is."""
    match = _HEAD.match(text)
    if match is None:
        return text
    op, name = match["op"], match["name"]
    names = next((names for begin, names in _ARGUMENTS.items() if op.startswith(begin)), None)
    if names is None:
        return text
    if match["index"]:
        name = f"out[{match['index']}] ({name})"
    elif match["out"]:
        name = "out"
    else:
        name = names.get(name, name)
    rest = text[match.end() :].replace("the input's dtype", "the dtype of x")
    if is_output(name):
        rest = _COPY.sub(" " + give(name, "an aligned" if " misaligned" in rest else "a contiguous"), rest)
        rest = re.sub(r": pass \.to\(.*$", f": give {name.partition(' ')[0]} there.", rest)
    if op.startswith("prepare_w4a16_"):
        op = "prepare_w4a16_weights"
    return f"{op}: {'row stride of ' if match['stride'] else ''}{name}{rest}"


def reworded(error: Exception) -> Exception:
    """An error with its text in Python's names; those of other classes than the library's are left alone."""
    if type(error) not in (ValueError, TypeError, RuntimeError):
        return error
    text = str(error)
    better = in_python(text)
    return error if better == text else type(error)(better)
