"""Faults that test_gemm_emulation plants in the kernels' headers, one at a time, and what a run then prints."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """`text` of a header, with `wrong` in its place while the fault is on; `symptom`: what the failing run prints.

    Headers are those of kernels/gemm, or of another folder if they name it.
    """

    name: str
    header: str
    text: str
    wrong: str
    symptom: str
    also: tuple[tuple[str, str], ...] = ()  # more such pairs
    program: str = ""  # that finds it, if not the header's own


WRONG_RESULT = "mismatch at"
FAULTS = (
    Fault(
        "bias of the wrong column",
        "wgmma",
        "scale * sum[i + 2 * j + 1] + bias[j % 2]",
        "scale * sum[i + 2 * j + 1] + bias[j / 2]",
        WRONG_RESULT,
    ),
    Fault(
        "no wait for weights",
        "wgmma",
        "if (!weights_there) mbarrier_wait(map.weight_full(rings.raw.slot), rings.raw.parity);",
        ";",
        WRONG_RESULT,
    ),
    Fault(
        "no wait for activations",
        "wgmma",
        "(q % 2 == 0 || kWords == 2) && !unit_there",
        "false",
        "mismatch at|mbarrier underflow|deadlock",
    ),
    Fault(
        "no wait for a free unit",
        "wgmma",
        "mbarrier_wait_patiently(map.unit_empty(ring.slot), ring.parity ^ 1);",
        ";",
        "mismatch at|mbarrier underflow|deadlock",
    ),
    Fault(
        "the other CTA's consumers are not waited for",
        "wgmma",
        "(lane & (schedule.pair - 1))",
        "pair_rank(schedule)",
        "mismatch at|mbarrier underflow|deadlock",
    ),
    Fault(
        "unit released before its products are done",
        "wgmma",
        "wgmma_wait<1>();",
        "wgmma_wait<3>();",
        WRONG_RESULT,
    ),
    Fault(
        "slot of weights not released",
        "wgmma",
        "if (threadIdx.x % 32 == 0) mbarrier_arrive(map.weight_empty(rings.raw.slot));",
        ";",
        "deadlock",
    ),
    Fault(
        "too few bytes expected",
        "wgmma",
        "mbarrier_arrive_expect(full, Config::kWeightBytes + Config::kWeightScaleBytes);",
        "mbarrier_arrive_expect(full, Config::kWeightBytes);",
        "mbarrier underflow|mismatch at",
    ),
    Fault(
        "activations for one CTA of two",
        "wgmma",
        "3u << 2 * slice_rank(args.schedule)",
        "1u << 2 * slice_rank(args.schedule) << rank",
        "deadlock",
    ),
    Fault(
        "scales beyond k",
        "wgmma_weights",
        "inside ? pending[h] : 0",
        "pending[h]",
        WRONG_RESULT,
    ),
    Fault(
        "a CTA ends before the other",
        "wgmma",
        "cluster_sync();  // the other CTA's copies and arrivals come here until it is done",
        ";",
        "of a CTA that has ended",
    ),
    Fault(
        "parts added before all are there",
        "wgmma",
        "static_cast<uint32_t>(last - first)",
        "static_cast<uint32_t>(last - first - 1)",
        "counter|mismatch at",
    ),
    Fault(
        "two parts in one place",
        "wgmma",
        "(of == first ? 1 : 0)",
        "0",
        WRONG_RESULT,
    ),
    Fault(
        "staging overwritten before it is read",
        "wgmma",
        "if (thread == 0) tma_store_wait_read();  // the previous tile's",
        ";",
        WRONG_RESULT,
    ),
    Fault(
        "sums of the other slice not waited for",
        "wgmma",
        "mbarrier_wait(map.exchange_full(half), 0);",
        ";",
        "mismatch at|copies in flight",
        program="wgmma_w4a16",
    ),
    Fault(
        "a slice sends the sums that it keeps",
        "wgmma",
        "slice == 0 ? sum[kOwn + i + j] : sum[i + j]",
        "slice != 0 ? sum[kOwn + i + j] : sum[i + j]",
        WRONG_RESULT,
        program="wgmma_w4a16",
    ),
    Fault(
        "both slices store the same rows",
        "wgmma",
        "tile.m0 += slice_rank(args.schedule) * (Config::kTokens / 2);",
        ";",
        WRONG_RESULT,
        program="wgmma_w4a16",
    ),
    Fault(
        "units freed for the other slice",
        "wgmma",
        "slice_rank(schedule) * schedule.pair",
        "0",
        "mismatch at|mbarrier underflow|deadlock|of a CTA that has ended",
        program="wgmma_w4a16",
    ),
    Fault(
        "sums of one group lost",
        "wgmma",
        "sum[i] += bits_float(v.x)",
        "sum[i] = bits_float(v.x)",
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
        "stream: no wait for copies",
        "wgmma_stream",
        "cp_async_wait<Config::kSlots - 1>();\n      __syncwarp();",
        "cp_async_wait<Config::kSlots>();",
        WRONG_RESULT,
    ),
    Fault(
        "stream: scales beyond k",
        "wgmma_stream",
        "if (!inside) bytes[h] = 0;",
        ";",
        WRONG_RESULT,
    ),
    Fault(
        "stream: scales of other rows",
        "wgmma_stream",
        "lane / 4 % 4 * 16 + lane / 16 * 4",
        "lane / 4 % 4 * 16",
        WRONG_RESULT,
    ),
    Fault(
        "stream: one product for scales that need two",
        "wgmma_stream",
        "max(bytes[0], bytes[1]) > kOneProduct",
        "false",
        WRONG_RESULT,
    ),
    Fault(
        "stream: order along k",
        "wgmma_stream",
        "(4 * pair + i)",
        "(4 * pair + (i ^ 1))",
        WRONG_RESULT,
    ),
    Fault(
        "stream: rows beyond m",
        "wgmma_stream",
        "token < static_cast<uint32_t>(args.gemm.m)",
        "true",
        "read outside of the operands",
    ),
    Fault(
        "stream: a slice's sums lost",
        "wgmma_stream",
        "slice < slices",
        "slice + 1 < slices",
        WRONG_RESULT,
    ),
    Fault(
        "stream: sums not waited for",
        "wgmma_stream",
        "mbarrier_wait(sums_barrier, 0);",
        ";",
        "mismatch at|of a CTA that has ended|copies in flight",
    ),
    Fault(
        "stream: fewer sums expected than come",
        "wgmma_stream",
        "(blocks + slices - 1 - rank) / slices * slices",
        "(blocks + slices - 1 - rank) / slices * (slices - 1)",
        "mbarrier underflow|mismatch at|of a CTA that has ended",
    ),
    Fault(
        "stream: sums of two CTAs in one place",
        "wgmma_stream",
        "local * slices + rank",
        "local * slices",
        WRONG_RESULT,
    ),
    Fault(
        "stream: columns beyond n stored",
        "wgmma_stream",
        "column >= static_cast<uint32_t>(args.gemm.n)",
        "false",
        "written outside of the output|mismatch at",
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
