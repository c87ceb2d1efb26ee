"""The judge's own xxHash64 gives what the algorithm's authors, Spark's documentation and a run on Spark do."""

from __future__ import annotations

import pytest

from tests.harness.checkers.xxhash64 import shard_of, xxhash64
from tests.unit.harness.recorded_run import RECORDED, unpacked
from tests.unit.harness.tamper import lines_of

_PRIME_32, _PRIME_64 = 2654435761, 11400714785074694797


def sanity_buffer(size: int) -> bytes:
    """Bytes that the authors' own check of the algorithm hashes."""
    content, generator = bytearray(), _PRIME_32
    for _ in range(size):
        content.append(generator >> 56)
        generator = generator * _PRIME_64 % 2**64
    return bytes(content)


@pytest.mark.parametrize(
    ("size", "seed", "hashed"),
    [
        (0, 0, 0xEF46DB3751D8E999),
        (0, _PRIME_32, 0xAC75FDA2929B17EF),
        (1, 0, 0xE934A84ADB052768),
        (1, _PRIME_32, 0x5014607643A9B4C3),
        (4, 0, 0x9136A0DCA57457EE),
        (14, 0, 0x8282DCC4994E35C8),
        (14, _PRIME_32, 0xC3BD6BF63DEB6DF0),
        (222, 0, 0xB641AE8CB691C174),
        (222, _PRIME_32, 0x20CB8AB7AE10C14A),
    ],
)
def test_it_gives_the_values_of_the_authors_own_check(size: int, seed: int, hashed: int) -> None:
    assert xxhash64(sanity_buffer(size), seed) == hashed


def test_it_gives_the_values_of_sparks_documentation() -> None:
    """`xxhash64(c1)` and `xxhash64(c1, c2)` of ('ABC', 'DEF'): the second column is hashed with the first as seed."""
    assert xxhash64(b"ABC") == 4105715581806190027
    assert xxhash64(b"DEF", seed=xxhash64(b"ABC")) == 3233247871021311208


def test_a_shard_is_the_remainder_of_the_signed_number() -> None:
    """Of a number beyond 2^63, which Spark shows as negative, the remainder is another than of the unsigned one."""
    text = next(text for text in map(str, range(100)) if xxhash64(text.encode()) >> 63)
    assert shard_of(text, 3) == (xxhash64(text.encode()) - 2**64) % 3 != xxhash64(text.encode()) % 3
    assert shard_of("ABC", 3) == 4105715581806190027 % 3


@pytest.mark.parametrize("archive", RECORDED, ids=lambda path: path.name)
def test_rows_of_a_run_on_spark_are_in_the_partition_of_their_shard(
    archive: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = unpacked(archive, tmp_path_factory.mktemp("run"))  # type: ignore[arg-type]
    for sink in ("accepted", "dead_letter", "user_counts"):
        rows = lines_of(run / "observed" / f"{sink}.jsonl")
        homes = [
            row["user"] if sink == "user_counts" else row["id"] or "-".join(map(str, row["source"])) for row in rows
        ]
        assert len(rows) > 100
        assert [shard_of(home, 2) for home in homes] == [row["partition"] for row in rows]
