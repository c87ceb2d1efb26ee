"""What is away or used up behind a failure, told by what Spark's JVM fails with: it meets all without a worker of ours.

A server that does not answer or has no room, and a machine without disk or memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from effectively_once.driver.shortage import name_shortage
from effectively_once.errors import AccessError, PipelineError, UnreachableError
from effectively_once.kafka_client import name_failed_disk

_STORE = re.compile(r"object store: ((?:conditional )?[A-Z]+ of \S+?) failed: (.*)")
"""As `Bucket.java` says it, once its patience is over."""
_STATUS = re.compile(r"Status Code: (\d{3})")
_BROKER = re.compile(
    r"org\.apache\.kafka\.common\.(?:errors\.(?:TimeoutException|DisconnectException|NetworkException)"
    r"|config\.ConfigException: No resolvable bootstrap urls)\b:? ?(.*)"
)
_BROKERS_DISK = re.compile(r"org\.apache\.kafka\.common\.errors\.KafkaStorageException\b:? ?(.*)")
_REFUSED = (401, 403)
_FULL = re.compile(r"StorageFull|minimum free drive threshold")
"""MinIO's name for it, and what it says beside it; Java's client hands on the words and the status, 507."""
AGAIN = "Check that it runs and that the address is right; nothing was lost, start the pipeline again."
ROOM = "Make room on its disk, or expire old versions; nothing was lost, start the pipeline again."


def outage(error: BaseException, store: str, broker: str) -> PipelineError | None:
    """Name a failure of Spark behind which a server is, or a machine that is short of something; None for any other.

    A worker's own error has its name already (`worker_errors`), which goes first.

    Args:
        error: what the query or the session ended with.
        store: address of the object store, for the message.
        broker: that of the broker.

    """
    texts = list(texts_of(error))
    for text in texts:
        if found := _STORE.search(text):
            return _of_store(found[1], found[2], store)
        if found := _BROKER.search(text):
            return UnreachableError(f"the Kafka broker does not answer: {found[1].strip()[:300]}", broker, AGAIN)
        if found := _BROKERS_DISK.search(text):
            return name_failed_disk(found[1].strip()[:300], broker)
    # What a store or a broker says in the same words is about its own disk.
    return name_shortage("\n".join(texts))


def _of_store(what: str, said: str, where: str) -> PipelineError | None:
    """Name what became of a request. An answer is no outage, but for those by which a server says that it cannot."""
    status = _STATUS.search(said)
    code = int(status[1]) if status else None
    if code in _REFUSED:
        return AccessError(f"the object store refuses a {what}: {said[:300]}", where, "Check credentials and rights.")
    if code == 507 or (code is not None and code >= 500 and _FULL.search(said)):
        return UnreachableError(f"the object store has no room left and takes no {what}: {said[:300]}", where, ROOM)
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
