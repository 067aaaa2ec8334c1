"""Faults that test_gemm_emulation plants in the kernels' headers, one at a time, and what a run then prints."""

from emulation.fault import WRONG_RESULT, Fault
from emulation.stream_faults import STREAM_FAULTS
from emulation.wgmma_faults import WGMMA_FAULTS

FAULTS = (
    *WGMMA_FAULTS,
    *STREAM_FAULTS,
    Fault(
        "scales beyond k",
        "wgmma_weights",
        "inside ? pending[h] : 0",
        "pending[h]",
        WRONG_RESULT,
    ),
    Fault(
        "values beyond k expanded",
        "expand",
        "block * kExpandBlock + 32 * t < args.k",
        "true",
        "read outside of the operands|mismatch at",
    ),
    Fault(
        "order along k",
        "expand",
        "shared_store4(own + ((4 * q + c) ^ lane / 4) * 16, pairs[c]);",
        "shared_store4(own + ((4 * q + (c ^ 1)) ^ lane / 4) * 16, pairs[c]);",
        WRONG_RESULT,
    ),
    Fault(
        "counters not set to zero",
        "expand",
        "args.counters[i] = 0;",
        ";",
        "mismatch at|counter",
    ),
    Fault(
        "no wait for copies",
        "mma_sync",
        "cp_async_wait<Config::kSlots - 1>();",
        "cp_async_wait<Config::kSlots>();",
        WRONG_RESULT,
    ),
    Fault(
        "rows beyond m",
        "mma_sync",
        "(tokens_inside_ >> tile & 1) != 0",
        "true",
        "read outside of the operands",
    ),
    Fault(
        "swapped operand",
        "mma_sync",
        "Operand::multiply(accumulator[strip][i], operand, tokens[i][w][2 * j], tokens[i][w][2 * j + 1]);",
        "Operand::multiply(accumulator[strip][i], operand, tokens[i][w][2 * j + 1], tokens[i][w][2 * j]);",
        WRONG_RESULT,
    ),
    Fault(
        "scales of another unit",
        "mma_sync",
        "scales_[i / Config::kScaleUnits] + i % Config::kScaleUnits * 4",
        "scales_[i / Config::kScaleUnits]",
        WRONG_RESULT,
    ),
    Fault(
        "scale of the other half",
        "mma_sync",
        "scale_bytes + i * 128 + half",
        "scale_bytes + i * 128",
        WRONG_RESULT,
    ),
    Fault(
        "scales of rows beyond m",
        "mma_sync",
        "row < static_cast<uint32_t>(args.m) ? i * 128 + g * 16 : 0",
        "0",
        WRONG_RESULT,
    ),
    Fault(
        "fp16 for scales that are too small",
        "mma_operand",
        "(field - 6)",
        "field",
        WRONG_RESULT,
        program="mma_sync",
    ),
    Fault(
        "fp16 for scales that are too large",
        "mma_operand",
        "(field + 1)",
        "field",
        WRONG_RESULT,
        program="mma_sync",
    ),
    Fault(
        "sums over slots in use",
        "mma_sync",
        "cp_async_wait<0>();\n  __syncthreads();",
        "cp_async_wait<0>();",
        WRONG_RESULT,
    ),
    Fault(
        "columns beyond n stored",
        "mma_sync",
        "if (token >= args.m || column >= args.n) continue;",
        "if (token >= args.m || column >= args.n + 1) continue;",
        "written outside of the output|mismatch at",  # or in the next row
    ),
    Fault(
        "codes of another step",
        "w4a16/wgmma_weights",
        "i * kW4a16StepK + lane % 4 * 2",
        "(i ^ 1) * kW4a16StepK + lane % 4 * 2",
        WRONG_RESULT,
    ),
    Fault(
        "scales of the row tile before",
        "w4a16/wgmma_weights",
        "shared_load4(tile + place.scales)",
        "shared_load4(tile + place.scales % kRowTileBytes)",
        WRONG_RESULT,
    ),
    Fault(
        "weights of another step",
        "w4a16/wgmma_weights",
        "tma_load_2d(map.weights(slot), &args.b_map, (step >> args.weight_shift) * kBoxColumns,"
        " n0 / kW4a16TileRows, full);",
        "tma_load_2d(map.weights(slot), &args.b_map, step * kBoxColumns, n0 / kW4a16TileRows, full);",
        WRONG_RESULT,
    ),
    Fault(
        "the rest of an activation is lost",
        "w4a16/split_activations",
        "value - __bfloat162float(hi[j])",
        "0.0f",
        WRONG_RESULT,
    ),
    Fault(
        "activations beyond k are read",
        "w4a16/split_activations",
        "first_row + i < args.m && column < args.k",
        "first_row + i < args.m",
        "read outside of the operands|mismatch at",
    ),
    Fault(
        "counters not cleared",
        "w4a16/clear_counters",
        "counters.first[i] = 0;",
        ";",
        "mismatch at|counter",
    ),
)
