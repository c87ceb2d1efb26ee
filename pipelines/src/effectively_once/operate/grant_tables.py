"""Roles of a PostgreSQL, one for each pipeline that has tables: made as a file says, by who owns the server.

Run as `python -m effectively_once grant-tables FILE`, with one file of a password for each role in a folder, and the
owner's login in the environment. Safe to run again.

A role owns the schema of its name and the tables in it. Of what all pipelines have in the same tables, the marks and
the catalog of lake tables, it sees and changes the rows of its name. Each role of ours is a member of one that cannot
log in, and is known by that.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from psycopg import sql
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from effectively_once.errors import AccessError, PipelineError, SettingsError
from effectively_once.operate.grants_file import read_grants
from effectively_once.sinks.database import DatabaseAddress, Session, connect, is_not_believed, name_failures
from effectively_once.sinks.tables import MARKS, make_marks

PAUSE_S: Final = 1.0
LEAST_S: Final = 1.0
"""How long a server may take to answer when the deadline is near."""
OURS: Final = "effectively-once.pipelines"
"""The role that those of pipelines are members of. No pipeline has a dash in its name."""
SHARED: Final = {MARKS[1]: "pipeline", "iceberg_tables": "table_namespace", "iceberg_namespace_properties": "namespace"}
"""Tables that all pipelines have rows in, and the column of each that says whose a row is."""
TAKEN: Final = ("public", "none", "information_schema", MARKS[0])
"""Names that PostgreSQL or the platform has for a role or a schema of its own, besides those that begin with `pg_`."""
_MEMBERS: Final = """
SELECT member.rolname FROM pg_auth_members
JOIN pg_roles AS member ON member.oid = pg_auth_members.member JOIN pg_roles AS one ON one.oid = roleid
WHERE one.rolname = %s
"""
_SHARED: Final = """
SELECT relrowsecurity AND EXISTS (SELECT FROM pg_policy WHERE polrelid = pg_class.oid AND polname = 'own')
FROM pg_class WHERE oid = to_regclass(%s)
"""
_OWNER: Final = """
SELECT pg_get_userbyid(nspowner), pg_get_userbyid(nspowner) = current_user FROM pg_namespace WHERE nspname = %s
"""
# What belongs to a table, as its indexes and the sequences of its columns, follows its owner.
_HANDED_OVER: Final = """
SELECT format('ALTER TABLE %%s OWNER TO %%I', oid::regclass, %(user)s::text) FROM pg_class
WHERE relnamespace = to_regnamespace(%(user)s::text) AND pg_get_userbyid(relowner) = current_user
  AND (relkind IN ('r', 'p', 'v', 'm', 'f') OR relkind = 'S' AND NOT EXISTS (
    SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype IN ('a', 'i')))
UNION ALL SELECT format('ALTER ROUTINE %%s OWNER TO %%I', oid::regprocedure, %(user)s::text) FROM pg_proc
WHERE pronamespace = to_regnamespace(%(user)s::text) AND pg_get_userbyid(proowner) = current_user
"""
_END: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ANY(%s)"


def _is_free(name: str) -> str:
    """Return the name. Raises ValueError: it is no pipeline's to have."""
    if name in TAKEN or name.startswith("pg_"):
        raise ValueError(f"{name} is a name of PostgreSQL's or of the platform's own: give the pipeline another one")
    return name


class Grants(BaseModel):
    """The file.

    Attributes:
        database: `postgresql://host:port/database`.
        users: identities of pipelines: roles, schemas, and names in the marks.

    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    users: tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$"), AfterValidator(_is_free)], ...]


def grant(session: Session, grants: Grants, passwords: Mapping[str, str], say: Callable[[str], object]) -> None:
    """Give each pipeline its role, password, schema and rows of its own, all at once; then end those of no pipeline.

    What belonged to the owner, as a pipeline without a role made it, becomes the role's. Sessions that have begun go on
    when a password changes. Roles that the file does not name log in no more, and keep their tables.

    Args:
        session: of the owner, a superuser.
        grants: what is wanted.
        passwords: of each user.
        say: is told what was done.

    Raises:
        SettingsError: a role or a schema of a pipeline's name is somebody else's.
        psycopg.Error: the server refuses, or fails.

    """
    with session.transaction():
        make_marks(session)
        # Their library is an extra, and in the image that this runs in.
        from effectively_once.sinks.lake_catalog import make_catalog_tables  # noqa: PLC0415

        make_catalog_tables(session)
        _share(session)
        ours = {name for (name,) in session.execute(_MEMBERS, [OURS]).fetchall()}
        for user in grants.users:
            _make_role(session, user, passwords[user], is_there=user in ours)
            _make_schema(session, user)
        gone = sorted(ours - {*grants.users})
        for user in gone:
            session.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(user)))
    session.execute(_END, [gone])
    say(f"{len(grants.users)} roles have their schemas and marks; {len(gone)} log in no more")


def _share(session: Session) -> None:
    """Let each role of ours use the rows of its own name; the owner of the tables, and a superuser, see all of them."""
    ours = sql.Identifier(OURS)
    if not _has_role(session, OURS):
        session.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(ours))
    session.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(MARKS[0]), ours))
    for name, column in SHARED.items():
        table, whose = sql.Identifier(MARKS[0], name), sql.Identifier(column)
        session.execute(sql.SQL("GRANT SELECT, INSERT, UPDATE ON {} TO {}").format(table, ours))
        # Asked first, as either takes a lock that pipelines at work would wait for.
        if session.execute(_SHARED, [f"{MARKS[0]}.{name}"]).fetchone() != (True,):
            session.execute(sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(table))
            session.execute(sql.SQL("DROP POLICY IF EXISTS own ON {}").format(table))
            session.execute(
                sql.SQL("CREATE POLICY own ON {} TO {} USING ({} = current_user)").format(table, ours, whose)
            )


def _make_role(session: Session, user: str, password: str, *, is_there: bool) -> None:
    if not is_there and _has_role(session, user):
        raise SettingsError(
            f"there is a role {user} already, and it is none of a pipeline's",
            "roles of the database",
            "Rename it (ALTER ROLE ... RENAME TO ...), or give the pipeline another name.",
        )
    # Hashed here: a server that fails at a statement writes it into its log.
    hashed = session.pgconn.encrypt_password(password.encode(), user.encode(), b"scram-sha-256").decode()
    session.execute(
        sql.SQL(
            "{} ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS INHERIT PASSWORD {}"
        ).format(sql.SQL("ALTER" if is_there else "CREATE"), sql.Identifier(user), sql.Literal(hashed))
    )
    if not is_there:
        session.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(OURS), sql.Identifier(user)))


def _make_schema(session: Session, user: str) -> None:
    found, role = session.execute(_OWNER, [user]).fetchone(), sql.Identifier(user)
    if found is None:
        session.execute(sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(role, role))
        return
    owner, is_mine = found
    if is_mine:
        session.execute(sql.SQL("ALTER SCHEMA {} OWNER TO {}").format(role, role))
    elif owner != user:
        raise SettingsError(
            f"there is a schema {user} already, and it is the role {owner}'s",
            "schemas of the database",
            "Rename it (ALTER SCHEMA ... RENAME TO ...), or give the pipeline another name.",
        )
    for (statement,) in session.execute(_HANDED_OVER, {"user": user}).fetchall():
        session.execute(statement.encode())


def _has_role(session: Session, name: str) -> bool:
    return session.execute("SELECT FROM pg_roles WHERE rolname = %s", [name]).fetchone() is not None


def _patiently(work: Callable[[float], None], deadline_s: float) -> None:
    """Do it; again while the server of before is there, which shows no certificate, or one by another authority."""
    until = time.monotonic() + deadline_s
    while True:
        try:
            return work(max(LEAST_S, until - time.monotonic()))
        except AccessError as error:
            if not is_not_believed(error.__cause__) or time.monotonic() > until:
                raise
        time.sleep(PAUSE_S)


def _work(grants: Grants, passwords: Mapping[str, str], patience_s: float) -> None:
    address = DatabaseAddress(grants.database)
    with name_failures(address.url), connect(address, "effectively-once grant-tables", patience_s) as session:
        grant(session, grants, passwords, print)


def main(argv: Sequence[str]) -> int:
    """Read the command line, do it, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m effectively_once grant-tables", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("file", type=Path, help="the database, and the pipelines with tables")
    parser.add_argument("--passwords", type=Path, required=True, help="folder with a file for each of them")
    parser.add_argument("--deadline-s", type=float, default=300.0, help="seconds that the server may take to answer")
    given = parser.parse_args(argv)
    try:
        grants, passwords = read_grants(Grants, given.file, given.passwords)
        _patiently(partial(_work, grants, passwords), given.deadline_s)
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0
