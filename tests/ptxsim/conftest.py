"""One set of simulator processes for all tests of a run."""

import pytest

from . import suite


@pytest.fixture(scope="session")
def results(request):
    parameters = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    found = suite.Results(case for p in parameters if isinstance(case := p.get("case"), suite.Case))
    yield found
    found.close()


def pytest_collection_modifyitems(items):
    for item in items:
        if "ptxsim" in item.keywords:
            item.add_marker(pytest.mark.timeout(suite.SECONDS))
