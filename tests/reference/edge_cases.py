"""The edge cases of quantisation as data: inputs and the bytes they must give, derived by hand.

Each case is one block. `values` are its first elements (the rest of the block is +0, whose code is 0 in every case that
is not poisoned), `scale` is the expected scale byte and `codes` the expected codes of `values`. The library, the
reference and the table must all agree.
"""

from dataclasses import dataclass

h = float.fromhex
NAN, INF, FLT_MAX = float("nan"), float("inf"), h("0x1.fffffep+127")


@dataclass(frozen=True)
class Case:
    name: str
    values: tuple[float, ...]
    scale: int
    codes: tuple[int, ...]
    global_scale: float = 1.0  # NVFP4
    rounding: str = "both"  # MXFP4: "ceil", "floor" or both


# fmt: off
# With a scale of 1 (amax 6) every element is rounded as it stands: the ties, and the neighbours of each tie in fp32.
_TIES_POSITIVE = (6.0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
_TIES_CODES = (7, 0, 2, 2, 4, 4, 6, 6)
_TIES_NEGATIVE = tuple(-value for value in _TIES_POSITIVE)
_TIES_NEGATIVE_CODES = tuple(code | 8 for code in _TIES_CODES)
_BELOW_TIES = (6.0, h("0x1.fffffep-3"), h("0x1.7ffffep-1"), h("0x1.3ffffep+0"), h("0x1.bffffep+0"), h("0x1.3ffffep+1"),
               h("0x1.bffffep+1"), h("0x1.3ffffep+2"))
_BELOW_TIES_CODES = (7, 0, 1, 2, 3, 4, 5, 6)
_ABOVE_TIES = (6.0, h("0x1.000002p-2"), h("0x1.800002p-1"), h("0x1.400002p+0"), h("0x1.c00002p+0"), h("0x1.400002p+1"),
               h("0x1.c00002p+1"), h("0x1.400002p+2"))
_ABOVE_TIES_CODES = (7, 1, 2, 3, 4, 5, 6, 7)
_VALUES = (6.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
_VALUES_CODES = (7, 0, 1, 2, 3, 4, 5, 6)

NVFP4_CASES = (
    # Zeros and signs.
    Case("all +0", (0.0,) * 4, 0x00, (0, 0, 0, 0)),
    Case("-0 keeps its sign in a zero block", (-0.0, 0.0, -0.0), 0x00, (8, 0, 8)),
    Case("-0 keeps its sign beside 6", (-0.0, 6.0, 0.0), 0x38, (8, 7, 0)),
    Case("negatives that round to zero give 0x8", (6.0, -0.25, -0.125, h("-0x1p-100"), h("-0x1p-149")), 0x38,
         (7, 8, 8, 8, 8)),
    Case("positives that round to zero give 0x0", (6.0, 0.25, 0.125, h("0x1p-100"), h("0x1p-149")), 0x38,
         (7, 0, 0, 0, 0)),
    # Elements at scale 1.
    Case("the eight values", _VALUES, 0x38, _VALUES_CODES),
    Case("ties go to the even code", _TIES_POSITIVE, 0x38, _TIES_CODES),
    Case("negative ties go to the even code", _TIES_NEGATIVE, 0x38, _TIES_NEGATIVE_CODES),
    Case("just below the ties", _BELOW_TIES, 0x38, _BELOW_TIES_CODES),
    Case("just above the ties", _ABOVE_TIES, 0x38, _ABOVE_TIES_CODES),
    Case("amax is of magnitudes", (-6.0, 3.0), 0x38, (15, 5)),
    # Not finite: the whole block is marked and its codes are 0, negatives too.
    Case("NaN poisons", (1.0, NAN, -3.0), 0x7F, (0, 0, 0)),
    Case("-NaN poisons", (1.0, -NAN, -3.0), 0x7F, (0, 0, 0)),
    Case("NaN beside infinity", (INF, NAN), 0x7F, (0, 0)),
    Case("NaN first", (NAN, 6.0), 0x7F, (0, 0)),
    Case("infinity poisons", (1.0, INF, -3.0), 0x7F, (0, 0, 0)),
    Case("-infinity poisons", (1.0, -INF, -0.0), 0x7F, (0, 0, 0)),
    Case("global_scale NaN", (1.0, -1.0), 0x7F, (0, 0), NAN),
    Case("global_scale infinite", (1.0, -1.0), 0x7F, (0, 0), INF),
    Case("global_scale 0", (1.0, -1.0), 0x7F, (0, 0), 0.0),
    Case("global_scale -0", (1.0, -1.0), 0x7F, (0, 0), -0.0),
    Case("global_scale negative", (1.0, -1.0), 0x7F, (0, 0), -1.0),
    Case("global_scale NaN, zero block", (0.0, -0.0), 0x7F, (0, 0), NAN),
    Case("global_scale 0, zero block", (0.0, -0.0), 0x7F, (0, 0), 0.0),
    # The scale: amax/6 rounded to e4m3. Normal: ties at half of a unit of 1/8.
    Case("s = 1.0625, tie to 1 (0x38)", (6.375,), 0x38, (7,)),
    Case("s = 1.1875, tie to 1.25 (0x3A)", (7.125,), 0x3A, (7,)),  # 7.125 / 1.25 = 5.7
    Case("s = 1.9375, tie carries into the exponent: 2 (0x40)", (11.625,), 0x40, (7,)),  # 5.8125
    Case("s = 1.875 exactly (0x3F)", (11.25, 5.625), 0x3F, (7, 5)),  # 6 and 3
    # Saturation: 448 is 0x7E, 0x7F is NaN and must never come from a finite amax.
    Case("s = 416 (0x7D)", (2496.0,), 0x7D, (7,)),
    Case("s = 432, tie to 448", (2592.0,), 0x7E, (7,)),  # 5.79
    Case("s = 448", (2688.0, 1344.0), 0x7E, (7, 5)),
    Case("s = 464 saturates", (2784.0,), 0x7E, (7,)),
    Case("s = 480 saturates", (2880.0,), 0x7E, (7,)),
    Case("s far above 448: elements saturate too", (1048576.0, -1048576.0, 448.0, -896.0), 0x7E, (7, 15, 2, 12)),
    Case("amax FLT_MAX", (FLT_MAX, -FLT_MAX), 0x7E, (7, 15)),
    Case("global_scale * amax overflows", (h("0x1p+127"), 1.0, -0.0), 0x7E, (7, 7, 8), h("0x1p+100")),
    # Subnormal scales: units of 2^-9.
    Case("s = 2^-10, tie to 0: codes by sign", (6 * h("0x1p-10"), -6 * h("0x1p-10")), 0x00, (0, 8)),
    Case("s just above 2^-10", (h("0x1.800002p-8"),), 0x01, (5,)),  # 3.0000002
    Case("s = 0.5078 * 2^-9 (bf16)", (h("0x1.86p-8"),), 0x01, (5,)),  # 3.05
    Case("s = 2^-9", (6 * h("0x1p-9"), -3 * h("0x1p-9")), 0x01, (7, 13)),
    Case("s = 1.5 * 2^-9, tie to 2", (9 * h("0x1p-9"),), 0x02, (6,)),  # 4.5
    Case("s = 2.5 * 2^-9, tie to 2", (15 * h("0x1p-9"),), 0x02, (7,)),  # 7.5
    Case("s = 7 * 2^-9, the largest subnormal", (42 * h("0x1p-9"), 14 * h("0x1p-9")), 0x07, (7, 4)),
    Case("s = 7.5 * 2^-9, tie to the smallest normal", (45 * h("0x1p-9"),), 0x08, (7,)),  # 5.625
    Case("s = 2^-6, the smallest normal", (6 * h("0x1p-6"), -2 * h("0x1p-6")), 0x08, (7, 12)),
    Case("s underflows: factor 0, codes by sign", (h("0x1p-30"), h("-0x1p-30"), 0.0), 0x00, (0, 8, 0)),
    Case("smallest subnormal amax", (h("0x1p-149"), h("-0x1p-149")), 0x00, (0, 8)),
    # global_scale.
    Case("448 * 6 / amax maps amax to 448", (3.0, 1.5, 1.0, -0.25), 0x7E, (7, 5, 4, 9), 896.0),  # factor 2
    Case("fp16 subnormals, global_scale 2^24", (6 * h("0x1p-24"), h("0x1p-24"), -h("0x1p-24")), 0x38, (7, 2, 10),
         h("0x1p+24")),
    Case("global_scale subnormal, amax huge", (h("0x1.8p+127"), h("0x1p+127"), h("-0x1p+125")), 0x10, (7, 6, 10),
         h("0x1p-130")),  # s = 2^-5, factor 2^-125
    Case("global_scale 2^-100", (h("0x1.8p+102"), h("0x1p+100")), 0x38, (7, 2), h("0x1p-100")),
    Case("global_scale 2^100, amax subnormal", (h("0x1.8p-127"), h("0x1p-127")), 0x00, (0, 0), h("0x1p+100")),
    # factor = 2^120 / 2^-9 is above FLT_MAX: it is FLT_MAX, so zeros stay zeros and amax gives just below 3 and 1.
    Case("the factor is capped at FLT_MAX", (6 * h("0x1p-129"), -2 * h("0x1p-129"), 0.0, -0.0), 0x01, (5, 10, 0, 8),
         h("0x1p+120")),
    # Order of operations. Each alternative gives another byte or code.
    Case("(global * amax) / 6, not global * (amax / 6)", (1.1484375,), 0x21, (7,), h("0x1.6343ecp-1")),
    Case("(global * amax) / 6, not amax * (global / 6)", (1.328125,), 0x21, (7,), h("0x1.333334p-1")),
    Case("(global * amax) / 6, not * (1 / 6)", (1.2578125,), 0x21, (7,), h("0x1.6a888ep-1")),
    # global 0x391A268A: s = 0.0546875 (0x16); x = 93 is a tie (0.25) after rounding, code 0.
    Case("x * (global / s), not x * (global * (1 / s)), not (x * global) / s", (2240.0, 93.0, -93.0), 0x16, (7, 0, 8),
         h("0x1.344d14p-13")),
    # global 0x3D1C09C1, s = 1: x * global rounds to 0.25 in fp32 (code 0), exactly it is above.
    Case("the product is rounded to fp32, not x / (s / global)", (157.0, 6.5625, -6.5625), 0x38, (7, 0, 8),
         h("0x1.381382p-5")),
)

MXFP4_CASES = (
    Case("all +0", (0.0,) * 4, 0x00, (0, 0, 0, 0)),
    Case("-0 keeps its sign in a zero block", (-0.0, 0.0, -0.0), 0x00, (8, 0, 8)),
    Case("-0 keeps its sign beside 6", (-0.0, 6.0, 0.0), 127, (8, 7, 0)),
    Case("negatives that round to zero give 0x8", (6.0, -0.25, -0.125, h("-0x1p-100"), h("-0x1p-149")), 127,
         (7, 8, 8, 8, 8)),
    Case("positives that round to zero give 0x0", (6.0, 0.25, 0.125, h("0x1p-100"), h("0x1p-149")), 127,
         (7, 0, 0, 0, 0)),
    Case("the eight values", _VALUES, 127, _VALUES_CODES),
    Case("ties go to the even code", _TIES_POSITIVE, 127, _TIES_CODES),
    Case("negative ties go to the even code", _TIES_NEGATIVE, 127, _TIES_NEGATIVE_CODES),
    Case("just below the ties", _BELOW_TIES, 127, _BELOW_TIES_CODES),
    Case("just above the ties", _ABOVE_TIES, 127, _ABOVE_TIES_CODES),
    Case("amax is of magnitudes", (-6.0, 3.0), 127, (15, 5)),
    Case("NaN poisons", (1.0, NAN, -3.0), 0xFF, (0, 0, 0)),
    Case("-NaN poisons", (1.0, -NAN, -3.0), 0xFF, (0, 0, 0)),
    Case("NaN beside infinity", (INF, NAN), 0xFF, (0, 0)),
    Case("NaN first", (NAN, 6.0), 0xFF, (0, 0)),
    Case("infinity poisons", (1.0, INF, -3.0), 0xFF, (0, 0, 0)),
    Case("-infinity poisons", (1.0, -INF, -0.0), 0xFF, (0, 0, 0)),
    # The two roundings agree where 4 <= amax / 2^e <= 6 ...
    Case("amax 4", (4.0, -2.0), 127, (6, 12)),
    Case("amax 3", (3.0, 0.125), 126, (7, 0)),  # 6, and 0.25 is a tie
    Case("amax 1", (1.0,), 125, (6,)),
    Case("amax 2^20", (1048576.0,), 145, (6,)),
    # ... and part above 6.
    Case("amax just above 6, ceil", (h("0x1.800002p+2"), 6.0), 128, (5, 5), rounding="ceil"),
    Case("amax just above 6, floor saturates", (h("0x1.800002p+2"), 6.0), 127, (7, 7), rounding="floor"),
    Case("amax 7, ceil", (7.0, -7.0), 128, (6, 14), rounding="ceil"),  # 3.5 is a tie
    Case("amax 7, floor saturates", (7.0, -7.0), 127, (7, 15), rounding="floor"),
    Case("amax just below 8, ceil", (h("0x1.fffffep+2"),), 128, (6,), rounding="ceil"),
    Case("amax just below 8, floor", (h("0x1.fffffep+2"),), 127, (7,), rounding="floor"),
    Case("amax 6.5 (bf16), ceil", (6.5, 0.5), 128, (5, 0), rounding="ceil"),  # 3.25, and 0.25 is a tie
    Case("amax 6.5 (bf16), floor", (6.5, 0.5), 127, (7, 1), rounding="floor"),
    # The top of the range.
    Case("amax FLT_MAX, ceil", (FLT_MAX, -FLT_MAX), 253, (6, 14), rounding="ceil"),
    Case("amax FLT_MAX, floor", (FLT_MAX, -FLT_MAX), 252, (7, 15), rounding="floor"),
    Case("amax 1.5 * 2^127", (h("0x1.8p+127"), h("0x1p+127"), h("-0x1p+125")), 252, (7, 6, 10)),
    # The bottom: e = -127 is the smallest; its value 2^-127 and smaller inputs are fp32 subnormals.
    Case("e = -126", (h("0x1.8p-124"), h("-0x1p-126")), 1, (7, 10)),
    Case("e = -127", (h("0x1.8p-125"), h("0x1p-127"), h("-0x1p-128")), 0, (7, 2, 9)),
    Case("amax 1.75 * 2^-125, ceil", (h("0x1.cp-125"),), 1, (6,), rounding="ceil"),  # 3.5 is a tie
    Case("amax 1.75 * 2^-125, floor", (h("0x1.cp-125"),), 0, (7,), rounding="floor"),
    Case("e clamped: amax 2^-127", (h("0x1p-127"), h("-0x1p-127")), 0, (2, 10)),
    Case("e clamped: amax 2^-128 and the tie at 2^-129", (h("0x1p-128"), h("0x1p-129"), h("-0x1p-129")), 0, (1, 0, 8)),
    Case("smallest subnormal amax", (h("0x1p-149"), h("-0x1p-149")), 0, (0, 8)),
    Case("fp16 subnormals", (6 * h("0x1p-24"), h("0x1p-24"), -h("0x1p-24")), 103, (7, 2, 10)),
)
# fmt: on
