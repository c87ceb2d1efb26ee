"""The page of refusals has every named error of the library, each with what to do about it."""

from __future__ import annotations

import ast

from effectively_once import errors
from infra import refusals

PAGE = refusals.PAGE.read_text(encoding="utf-8")


def test_the_page_is_what_the_source_says() -> None:
    assert refusals.page() == PAGE, "python -m infra.refusals"


def test_every_class_of_errors_that_a_driver_ends_with_is_there_under_its_code() -> None:
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.PipelineError)]
    for kind in (one for one in classes if one is not errors.PipelineError):
        assert f"\n## {kind.exit_code} {kind.__name__}\n" in PAGE


def test_every_refusal_says_what_to_do_in_a_sentence() -> None:
    lacking = [one for one in refusals.refusals() if not one.todo.strip() or one.todo.rstrip()[-1] not in ".;…"]
    assert lacking == []


def test_a_text_is_told_as_far_as_the_source_has_it() -> None:
    def text_of(source: str) -> str:
        return refusals._text(ast.parse(source, mode="eval").body, {"AGAIN": "Run it again."})

    assert text_of("f'{count} rows are ' + 'gone'") == "… rows are gone"
    assert text_of("f'Restore it. {AGAIN}'") == "Restore it. Run it again."
    assert text_of("'one' if x else 'two'") == "one / two"
    assert text_of("self.what") == "…"


def test_every_page_row_is_a_row_of_a_table_of_two_columns() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {3}
