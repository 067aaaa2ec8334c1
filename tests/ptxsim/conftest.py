"""One set of simulator processes for all tests of a run."""

import pytest

from . import suite


@pytest.fixture(scope="session", autouse=True)
def results(request):
    """Runs ahead from the first test on, whichever it is: beside those that leave a core idle."""
    parameters = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    found = suite.Results(case for p in parameters if isinstance(case := p.get("case"), suite.Case))
    found.start()
    yield found
    found.close()


def pytest_collection_modifyitems(items):
    for item in items:
        if "ptxsim" in item.keywords:
            item.add_marker(pytest.mark.timeout(suite.SECONDS))
