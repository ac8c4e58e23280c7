"""What numba-cuda's tests take from a `conftest.py` that its wheel does not have."""

import pytest


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    request.cls._dump_failed_filechecks = False
