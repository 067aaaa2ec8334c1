"""Stand-ins for a GPU in the tests of `fp4aot bench`."""

import contextlib

import torch
from fp4aot.bench import peers

TIMES = {"fast": 9.0, "slow": 18.0, "cuBLAS bf16": 25.0, "Humming": 13.0, "read block 1": 8.0, "read block 2": 6.0,
         "empty": 3.0}  # fmt: skip


class ScriptedTimer:
    """Times that are known: by the name of the call, a microsecond more each turn."""

    def __init__(self, times):
        self.times, self.turns, self.prepared, self.turn_of_row = times, [], [], 0

    def prepare(self, call):
        call()
        self.turn_of_row = 0
        self.prepared.append(call)
        return call

    def turn(self, prepared):
        self.turns.append(list(prepared))
        self.turn_of_row += 1
        return {name: self.times[name] + self.turn_of_row - 1 for name in prepared}


class FakeCuda:
    """torch.cuda, and torch as far as GraphTimer needs it, writing down what is done in which order."""

    def __init__(self):
        self.log, self.clock, self.cuda = [], 0.0, self

    def ones(self, count, device):
        assert (count * 4, device) == (256 << 20, "cuda")
        return self

    def sum(self):
        self.log.append("flush")
        self.clock += 70.0

    def synchronize(self):
        self.log.append("synchronize")

    def current_stream(self):
        return self

    def wait_stream(self, other):
        self.log.append("wait")

    def Stream(self):
        return self

    def stream(self, stream):
        return contextlib.nullcontext()

    def CUDAGraph(self):
        return type("Graph", (), {"replay": lambda graph: self.replay(graph)})()

    @contextlib.contextmanager
    def graph(self, graph):
        self.log.append("capture")
        before = self.clock
        yield
        graph.time, self.clock = self.clock - before, before
        self.log.append("captured")

    def replay(self, graph):
        self.log.append("replay")
        self.clock += graph.time

    def Event(self, enable_timing):
        fake = self

        class Event:
            def record(self):
                fake.log.append("record")
                self.at = fake.clock

            def elapsed_time(self, end):
                return (end.at - self.at) * 1e-3

        return Event()

    def work(self, us):
        def call():
            self.log.append(f"call {us}")
            self.clock += us

        return call


class FakeGpu:
    """A machine with a GPU's peers, readers and empty kernel, whose products run on the CPU. Times come by name."""

    device, out_dtype, seconds_a_row = "cpu", torch.bfloat16, float("inf")

    def __init__(self, times, refuse=None):
        self.timer, self.notes, self.sizes, self.refuse = ScriptedTimer(times), ["Humming is old."], [], refuse

    def name(self):
        return "fake"

    def readers(self, size):
        self.sizes.append(size)
        return {"block 1": lambda: None, "block 2": lambda: None}

    def empty(self):
        return lambda: None

    def peers(self, suite, format, dense):
        def humming(x):
            if x.shape[0] == self.refuse:
                raise RuntimeError("no kernel")
            return lambda: None

        return {"cuBLAS bf16": peers.matmul(dense), "Humming": humming}
