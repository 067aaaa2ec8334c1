"""Lanes that part and meet again, and instructions across the lanes of a warp."""

import numpy as np
import pytest

from .core_device import Device

pytestmark = pytest.mark.ptxsim

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<32>; .reg .b64 %rd<8>; .reg .pred %p<16>;
  .shared .align 4 .b8 words[128];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %laneid;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
"""
TAIL = """
  st.global.u32 [%rd1], %r2;
  ret;
}
"""
LANE = np.arange(32)


def run(tmp_path, body: str, seed: int = 0) -> np.ndarray:
    path = tmp_path / "k.ptx"
    path.write_text(HEAD + body + TAIL)
    device = Device()
    device.load(path)
    device.schedule(seed)
    out = device.upload(np.full(32, 999, np.uint32))
    assert device.run("k", out) == []
    return device.download(out, np.uint32, 32)


CASES = {
    # Both sides, then together again: the count of active lanes behind the branch is 32.
    "diamond": (
        """
  setp.lt.u32 %p1, %r1, 5;
  @%p1 bra LOW;
  mov.u32 %r2, 100;
  bra.uni JOIN;
LOW:
  activemask.b32 %r3;
  popc.b32 %r2, %r3;
JOIN:
  activemask.b32 %r4;
  popc.b32 %r4, %r4;
  mad.lo.u32 %r2, %r4, 1000, %r2;
""",
        np.where(LANE < 5, 32005, 32100),
    ),
    # Each lane goes round as often as its number says.
    "loop": (
        """
  mov.u32 %r2, 0;
  mov.u32 %r3, 0;
AGAIN:
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra DONE;
  add.u32 %r2, %r2, %r3;
  add.u32 %r3, %r3, 1;
  bra AGAIN;
DONE:
""",
        LANE * (LANE - 1) // 2,
    ),
    "early exit": (
        """
  setp.gt.u32 %p1, %r1, 20;
  @%p1 ret;
  activemask.b32 %r2;
  bar.sync 0;
""",
        np.where(LANE > 20, 999, (1 << 21) - 1),
    ),
    # The block of one side stands behind the place where they meet; the vote needs all.
    "out of line": (
        """
  mov.u32 %r2, 1;
  setp.eq.u32 %p1, %r1, 7;
  @%p1 bra AWAY;
BACK:
  setp.eq.u32 %p2, %r2, 1;
  vote.sync.ballot.b32 %r2, %p2, -1;
  bra END;
AWAY:
  mov.u32 %r2, 2;
  bra BACK;
END:
""",
        np.full(32, 0xFFFFFF7F),
    ),
    # Lane 3 waits for what another lane of its warp stores only afterwards.
    "progress": (
        """
  mov.u32 %r5, words;
  setp.ne.u32 %p1, %r1, 0;
  @!%p1 st.shared.u32 [words], 0;
  bar.warp.sync -1;
  setp.eq.u32 %p1, %r1, 3;
  @!%p1 bra OTHERS;
SPIN:
  ld.volatile.shared.u32 %r2, [words];
  setp.eq.u32 %p2, %r2, 0;
  @%p2 bra SPIN;
  bra END;
OTHERS:
  mov.u32 %r2, 5;
  setp.eq.u32 %p3, %r1, 9;
  @%p3 st.volatile.shared.u32 [words], 6;
END:
""",
        np.where(LANE == 3, 6, 5),
    ),
    # bar.warp.sync in both sides of a branch, with the mask of all.
    "two places": (
        """
  mov.u32 %r5, words; shl.b32 %r6, %r1, 2; add.u32 %r6, %r5, %r6;
  st.shared.u32 [%r6], %r1;
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra LOW;
  bar.warp.sync -1;
  mov.u32 %r7, 0;
  bra JOIN;
LOW:
  bar.warp.sync -1;
  mov.u32 %r7, 1;
JOIN:
  xor.b32 %r6, %r6, 64;
  ld.shared.u32 %r2, [%r6];
""",
        LANE ^ 16,
    ),
    "nested": (
        """
  and.b32 %r3, %r1, 1; and.b32 %r4, %r1, 2;
  setp.ne.u32 %p1, %r3, 0; setp.ne.u32 %p2, %r4, 0;
  mov.u32 %r2, 0;
  @!%p1 bra OUTER;
  {
    .reg .pred %q;
    mov.pred %q, %p2;
    @!%q bra INNER;
    add.u32 %r2, %r2, 10;
  INNER:
    add.u32 %r2, %r2, 1;
  }
OUTER:
  activemask.b32 %r5; popc.b32 %r5, %r5; mad.lo.u32 %r2, %r5, 100, %r2;
""",
        3200 + np.where(LANE & 1, np.where(LANE & 2, 11, 1), 0),
    ),
    "indexed branch": (
        """
  and.b32 %r3, %r1, 3;
  min.u32 %r3, %r3, 2;
list: .branchtargets ZERO, ONE, TWO;
  brx.idx %r3, list;
ZERO:
  mov.u32 %r2, 10;
  bra JOIN;
ONE:
  mov.u32 %r2, 11;
  bra JOIN;
TWO:
  mov.u32 %r2, 12;
JOIN:
  vote.sync.ballot.b32 %r4, 1, -1;
  add.u32 %r2, %r2, %r4;
""",
        np.minimum(LANE & 3, 2) + 9,
    ),
    # Lanes 0..15: their own maximum; the mask names only them.
    "redux of a half": (
        """
  mov.u32 %r2, 0;
  setp.ge.u32 %p1, %r1, 16;
  @%p1 bra SKIP;
  mul.lo.u32 %r3, %r1, 3;
  redux.sync.max.u32 %r2, %r3, 65535;
SKIP:
""",
        np.where(LANE < 16, 45, 0),
    ),
    "elect": (
        """
  setp.lt.u32 %p1, %r1, 4;
  mov.u32 %r2, 50;
  @%p1 bra SKIP;
  elect.sync %r3|%p2, 0xFFFFFFF0;
  selp.u32 %r2, 1, 0, %p2;
  mad.lo.u32 %r2, %r3, 100, %r2;
SKIP:
""",
        np.where(LANE < 4, 50, np.where(LANE == 4, 401, 400)),
    ),
    "match any": ("  and.b32 %r3, %r1, 3;\n  match.any.sync.b32 %r2, %r3, -1;\n", 0x11111111 << (LANE & 3)),
    "match all": (
        "  mov.u32 %r3, 8;\n  match.all.sync.b32 %r2|%p1, %r3, -1;\n  selp.u32 %r2, %r2, 5, %p1;\n",
        np.full(32, 0xFFFFFFFF),
    ),
    "vote": (
        """
  setp.lt.u32 %p1, %r1, 31;
  vote.sync.all.pred %p2, %p1, -1;
  vote.sync.any.pred %p3, %p1, -1;
  vote.sync.uni.pred %p4, !%p1, -1;
  selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 2, 0, %p3; selp.u32 %r4, 4, 0, %p4;
  add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;
""",
        np.full(32, 2),
    ),
    "shuffle up": ("  shfl.sync.up.b32 %r2|%p1, %r1, 2, 0, -1;\n  @!%p1 add.u32 %r2, %r2, 100;\n",
                   np.where(LANE < 2, LANE + 100, LANE - 2)),
    "shuffle down": ("  shfl.sync.down.b32 %r2|%p1, %r1, 3, 31, -1;\n  @!%p1 add.u32 %r2, %r2, 100;\n",
                     np.where(LANE > 28, LANE + 100, LANE + 3)),
    "shuffle xor": ("  shfl.sync.bfly.b32 %r2, %r1, 8, 31, -1;\n", LANE ^ 8),
    # Segments of 8 lanes: 0x18 in bits 8-12.
    "shuffle in segments": ("  shfl.sync.idx.b32 %r2, %r1, 5, 0x181f, -1;\n", (LANE & 24) + 5),
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", CASES)
def test_lanes(tmp_path, name, seed):
    body, expected = CASES[name]
    assert (run(tmp_path, body, seed) == np.asarray(expected, np.uint32)).all()


def test_reading_a_lane_that_takes_no_part_is_undefined(tmp_path):
    body = """
  setp.lt.u32 %p1, %r1, 16;
  mov.u32 %r2, 0;
  @!%p1 bra SKIP;
  shfl.sync.idx.b32 %r2, %r1, 20, 31, 65535;
SKIP:
"""
    path = tmp_path / "k.ptx"
    path.write_text(HEAD + body + TAIL)
    device = Device()
    device.load(path)
    found = device.run("k", device.upload(np.zeros(32, np.uint32)))
    assert {f.check for f in found} == {"uninitialised"}


def test_a_lane_outside_of_the_mask(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(HEAD + "  vote.sync.ballot.b32 %r2, 1, 0xFFFF;\n" + TAIL)
    device = Device()
    device.load(path)
    found = device.run("k", device.upload(np.zeros(32, np.uint32)))
    assert {f.check for f in found} == {"not-in-mask"}
