"""Fixtures of every test. `device` runs a test on "cpu", and on "cuda" as well where there is a GPU."""

import functools
import os

import hypothesis
import pytest

# inductor's cache on disk knows graphs, not the schemas of ops: an older build's compiled code would call the new one.
os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")

# One profile: the suite must be the same everywhere, and its time bounded. FP4AOT_TESTS_EXAMPLES deepens the search.
hypothesis.settings.register_profile(
    "fp4aot",
    deadline=None,
    max_examples=int(os.environ.get("FP4AOT_TESTS_EXAMPLES", "40")),
    derandomize=True,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
hypothesis.settings.load_profile("fp4aot")


@functools.cache
def devices() -> list[str]:
    """Devices to test on; FP4AOT_TESTS_DEVICES ("cpu", "cuda", "cpu,cuda") overrides what is found."""
    if chosen := os.environ.get("FP4AOT_TESTS_DEVICES"):
        return chosen.split(",")
    import torch

    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", devices())


def pytest_configure(config):
    if os.environ.get("FP4AOT_SIM"):  # tests/python on a simulated GPU
        from ptxsim import python_suite

        if not python_suite.simulated():
            python_suite.restart(config)


def pytest_ignore_collect(collection_path):
    if os.environ.get("FP4AOT_SIM"):
        from ptxsim import python_suite

        if collection_path.is_file() and collection_path.stem not in python_suite.RUN:
            return True
    return None


# Files that take longest: two processes share the rest while these run, so that neither ends long before the other.
FIRST = ("emulation/", "static/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """`--dist loadfile`, but all of static/ in one process: its files look into the same, long machine code."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # by their number of tests

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "static" if "static/" in file else file

    return ByFile(config, log)


def pytest_terminal_summary(terminalreporter):
    if os.environ.get("FP4AOT_SIM"):
        from ptxsim import python_suite

        terminalreporter.write_line(python_suite.summary())


def pytest_collection_modifyitems(config, items):
    if os.environ.get("FP4AOT_SIM"):
        from ptxsim import python_suite

        python_suite.choose(config, items)
    if os.environ.get("PYTEST_XDIST_WORKER"):
        items.sort(key=lambda item: next((i for i, part in enumerate(FIRST) if part in item.nodeid), len(FIRST)))
    for item in items:
        if "cuda" in item.keywords and "cuda" not in devices():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device that an image of the wheel serves"))
