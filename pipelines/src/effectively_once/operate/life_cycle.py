"""The commands of a pipeline's life cycle, as the command line takes them: wiring only."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from effectively_once.driver.runtime import runtime_of
from effectively_once.operate import control_commands
from effectively_once.operate.abandon.abandon import abandon
from effectively_once.operate.abandon.accept_loss import accept_loss
from effectively_once.operate.abandon.repair import repair
from effectively_once.operate.dead_letters import replay
from effectively_once.operate.dead_letters.dead_letter_topic import DeadLetterTopic
from effectively_once.operate.retention.compaction import compact
from effectively_once.operate.retention.leftovers import Sort
from effectively_once.operate.retention.retention import AGE_S, retention
from effectively_once.pipeline.job import Job
from effectively_once.sinks import letter_records
from effectively_once.sinks.dead_letters import DeadLetter, Selection, count_reasons, epochs, show_letters
from effectively_once.store import object_store

WHEEL_DIGEST, SPARK_CONF = "EFFECTIVELY_ONCE_WHEEL_DIGEST", "EFFECTIVELY_ONCE_SPARK_CONF"
REPLAY_HELP = """\
Reads what is committed when it begins, and sends it to the pipeline's input again.

What is sent twice counts once where the record carries an id of its own (ids attached): so an interrupted replay may be
repeated. It counts twice where a pipeline identifies records by topic, partition and offset (ids coordinates), where
an edit changes the id, and it is late where its window has closed. The key of the original is not kept in a dead
letter: a record goes to the partition that it came from, without a key."""


def add_to(commands: Any) -> None:
    """Add the commands to the subparsers of a command line; each sets `command`, called with job and arguments."""
    pause = commands.add_parser("pause", help="declare no further epoch, until resume")
    drain = commands.add_parser("drain", help="publish what is in the input now, then let drivers stop")
    drain.add_argument("--wait-s", type=float, default=0.0, metavar="S", help="wait for it, so many seconds at most")
    resume = commands.add_parser("resume", help="declare epochs again")
    give_up = commands.add_parser(
        "abandon", help="give up the declared epoch, of which nothing is visible and which its version cannot finish"
    )
    give_up.add_argument("--yes", action="store_true", help="do it; without it only what there is is told")
    mend = commands.add_parser(
        "repair", help="finish the declared epoch as it is shown, of which a shard has shown too little; then the rest"
    )
    mend.add_argument("--yes", action="store_true", help="do it; without it only what there is is told")
    loss = commands.add_parser(
        "accept-loss", help="record input that the topic lost before it was read, and go on behind it"
    )
    loss.add_argument("--yes", action="store_true", help="do it; without it only what is lost is told")
    tidy = commands.add_parser("retention", help="find objects that the chain no longer needs, and delete them")
    tidy.add_argument("--delete", action="store_true", help="delete them; without it they are only counted")
    tidy.add_argument(
        "--older-than-s", type=float, default=AGE_S, metavar="S", help="what is younger stays (%(default).0f)"
    )
    tidy.add_argument(
        "--keep", action="append", default=[], type=Sort, choices=list(Sort), help="a sort that stays; may be repeated"
    )
    spans = commands.add_parser(
        "compact", help="put the manifests of object-store sinks, of epochs below the floor, into few objects"
    )
    spans.add_argument("--yes", action="store_true", help="do it; without it only what there is to do is told")
    letters = commands.add_parser("dead-letters", help="count, show and replay refused records")
    actions = letters.add_subparsers(required=True, metavar="ACTION")
    count = actions.add_parser("count", help="how many of which reason")
    show = actions.add_parser("show", help="print some, a line of JSON each")
    show.add_argument("--limit", type=read_number, default=10, metavar="N", help="so many at most (%(default)s)")
    again = actions.add_parser(
        "replay", help="send them again", description=REPLAY_HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    again.add_argument("--to", metavar="TOPIC", help="another topic than the pipeline's input")
    again.add_argument(
        "--edit", metavar="MODULE:FUNCTION", help="takes a record's bytes; returns those to send, or None to leave it"
    )
    again.add_argument("--anyway", action="store_true", help="send what came too late as well, unedited")
    for parser in (count, show, again):
        parser.add_argument("--reason", action="append", default=[], help="only these; may be repeated")
        parser.add_argument("--id", action="append", default=[], dest="ids", help="only these; may be repeated")
        parser.add_argument("--epochs", default="0-", metavar="A-B", help="only of these; A- and -B are open")
    for parser, function in (
        (pause, _pause),
        (drain, _drain),
        (resume, _resume),
        (give_up, _abandon),
        (mend, _repair),
        (loss, _accept_loss),
        (tidy, _retention),
        (spans, _compact),
        (count, _count),
        (show, _show),
        (again, _replay),
    ):
        parser.add_argument("settings", type=Path, help="settings file of the pipeline")
        parser.set_defaults(command=function)


def _pause(job: Job, _: argparse.Namespace) -> int:
    control_commands.pause(job.settings, _say)
    return 0


def _drain(job: Job, given: argparse.Namespace) -> int:
    control_commands.drain(job.settings, given.wait_s, _say)
    return 0


def _resume(job: Job, _: argparse.Namespace) -> int:
    control_commands.resume(job.settings, _say)
    return 0


def _abandon(job: Job, given: argparse.Namespace) -> int:
    abandon(job, _say, yes=given.yes)
    return 0


def _repair(job: Job, given: argparse.Namespace) -> int:
    wheel = os.environ.get(WHEEL_DIGEST)
    # Where a wheel is named, this is the version that is to finish the epoch.
    conf = os.environ.get(SPARK_CONF)
    runtime = None if wheel is None else runtime_of(json.loads(conf) if conf else None)
    repair(job, _say, yes=given.yes, wheel_digest=wheel, runtime=runtime)
    return 0


def _accept_loss(job: Job, given: argparse.Namespace) -> int:
    accept_loss(job, _say, yes=given.yes, wheel_digest=os.environ.get(WHEEL_DIGEST))
    return 0


def _retention(job: Job, given: argparse.Namespace) -> int:
    letters = lambda: letter_records.name_error(DeadLetterTopic(job.settings))  # noqa: E731
    retention(job.settings, _say, letters, delete=given.delete, age_s=given.older_than_s, keep=given.keep)
    return 0


def _compact(job: Job, given: argparse.Namespace) -> int:
    compact(job, _say, yes=given.yes)
    return 0


def _count(job: Job, given: argparse.Namespace) -> int:
    for line in count_reasons(DeadLetterTopic(job.settings), _read_selection(given)):
        _say(line)
    return 0


def _show(job: Job, given: argparse.Namespace) -> int:
    for line in show_letters(DeadLetterTopic(job.settings), _read_selection(given), given.limit, _whole(job)):
        _say(line)
    return 0


def _replay(job: Job, given: argparse.Namespace) -> int:
    if job.pipeline.ids == "coordinates":
        _say("this pipeline identifies records by where they are: what is sent twice counts twice")
    replay.replay(
        job.settings,
        DeadLetterTopic(job.settings),
        _read_selection(given),
        _say,
        to=given.to,
        edit=given.edit,
        anyway=given.anyway,
        whole=_whole(job),
    )
    return 0


def _whole(job: Job) -> Callable[[DeadLetter], DeadLetter]:
    """Return what gives a dead letter that was cut its record: the store is asked for these alone."""
    return lambda letter: letter_records.read(object_store.shared_store(job.settings.bucket), letter)


def read_number(text: str) -> int:
    """Read a number from 1 on, of a command line. Raises ArgumentTypeError."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least 1")
    return number


def _read_selection(given: argparse.Namespace) -> Selection:
    return Selection(frozenset(given.reason), frozenset(given.ids), epochs(given.epochs))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
