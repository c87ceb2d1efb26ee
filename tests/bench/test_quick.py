"""The quick set asks for what its cases know."""

from __future__ import annotations

import argparse

import pytest

from tests.bench.__main__ import CASES
from tests.bench.quick import SET


@pytest.mark.parametrize("name", SET)
def test_options_of_the_quick_set_are_those_of_its_cases(name: str) -> None:
    module, words = SET[name]
    given = argparse.ArgumentParser(exit_on_error=False)
    module.arguments(given)

    asked, unknown = given.parse_known_args(words)

    assert unknown == []
    assert asked.rounds >= 1
    assert asked.resume is None
    assert CASES[name][0] is module
