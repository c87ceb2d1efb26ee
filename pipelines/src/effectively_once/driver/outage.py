"""A server that was away, told by what Spark's JVM fails with: it meets store and broker without a worker of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator

from effectively_once.errors import AccessError, PipelineError, UnreachableError

_STORE = re.compile(r"object store: ((?:conditional )?[A-Z]+ of \S+?) failed: (.*)")
"""As `Bucket.java` says it, once its patience is over."""
_STATUS = re.compile(r"Status Code: (\d{3})")
_BROKER = re.compile(
    r"org\.apache\.kafka\.common\.(?:errors\.(?:TimeoutException|DisconnectException|NetworkException)"
    r"|config\.ConfigException: No resolvable bootstrap urls)\b:? ?(.*)"
)
_REFUSED = (401, 403)
AGAIN = "Check that it runs and that the address is right; nothing was lost, start the pipeline again."


def outage(error: BaseException, store: str, broker: str) -> PipelineError | None:
    """Name a failure of Spark behind which a server is; None for any other.

    A worker's own error has its name already (`worker_errors`), which goes first.

    Args:
        error: what the query or the session ended with.
        store: address of the object store, for the message.
        broker: that of the broker.

    """
    for text in texts_of(error):
        if found := _STORE.search(text):
            return _of_store(found[1], found[2], store)
        if found := _BROKER.search(text):
            return UnreachableError(f"the Kafka broker does not answer: {found[1].strip()[:300]}", broker, AGAIN)
    return None


def _of_store(what: str, said: str, where: str) -> PipelineError | None:
    """Name what became of a request. An answer is no outage, but for those by which a server says that it cannot."""
    status = _STATUS.search(said)
    code = int(status[1]) if status else None
    if code in _REFUSED:
        return AccessError(f"the object store refuses a {what}: {said[:300]}", where, "Check credentials and rights.")
    # Without a status there was no answer. 409: another request was under way all the time. 501: it cannot at all.
    if code is None or code == 409 or (code >= 500 and code != 501):
        return UnreachableError(f"the object store does not answer a {what}: {said[:300]}", where, AGAIN)
    return None


def texts_of(error: BaseException) -> Iterator[str]:
    """What an error says, then what it was caused by: Spark's own line tells of the first alone."""
    seen: set[int] = set()
    left: BaseException | None = error
    while left is not None and id(left) not in seen:
        seen.add(id(left))
        yield str(left)
        # PySpark keeps the JVM's stack trace, with all causes, beside the text.
        if isinstance(trace := getattr(left, "_stackTrace", None), str):
            yield trace
        left = left.__cause__
