"""Tables of a run: what their rows are read as."""

from __future__ import annotations

from unittest.mock import MagicMock

from tests.harness.adapters.tables import Tables


def test_times_are_read_as_of_utc_wherever_the_server_is() -> None:
    """Of another zone their text would be another one than the judge's."""
    server = MagicMock()
    assert list(Tables(server, "p").rows("t")) == []
    cursor = server.connect.return_value.__enter__.return_value.cursor.return_value.__enter__.return_value
    before, _ = (call.args[0] for call in cursor.execute.call_args_list)
    assert before == "SET TIME ZONE 'UTC'"
