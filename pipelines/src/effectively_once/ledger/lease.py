"""The lease: by it the active driver shows that it lives. It decides when a standby takes over, and never whether.

Only the chain says whose the pipeline is (R1), so a lease fences nobody and nothing depends on it but time. It is an
object beside head, as an idle pipeline does not write head, and what holds head's ETag must not be two threads.

It has no time of day in it: two machines' clocks are never compared. A standby sees that the object changed, or that it
did not, while its own monotonic clock went on. So each renewal has another content, as an ETag is a digest of it.
"""

from __future__ import annotations

from pydantic import Field

from effectively_once.ledger import chain, checksum
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Found, Get, Put, Step, Written
from effectively_once.ledger.record import Record

FORMAT = 1
RENEWALS = 5
"""So often it is renewed within its time: some may come late, or get lost."""


class Lease(Record):
    """What a driver writes again and again.

    Attributes:
        owner: the driver's, as in head.
        generation: the driver's, as in head.
        renewal: rises with every write, so that no content ever repeats.
        ttl_s: without a change for so long it has run out.
        released: its driver has ended, and nobody has to wait.

    """

    format: int = FORMAT
    owner: str
    generation: int
    renewal: int = 0
    ttl_s: float = Field(gt=0)
    released: bool = False

    def renew(self, *, released: bool = False) -> Lease:
        """Return what is written next."""
        return self.model_copy(update={"renewal": self.renewal + 1, "released": released})


def encode(lease: Lease) -> bytes:
    """Return the object's content, with its checksum: a bit that flips must not release it."""
    return checksum.seal(lease.model_dump(mode="json"))


def decode(body: bytes) -> Lease | None:
    """Parse the object; None where it is damaged or of a newer format: then it is nobody's sign of life."""
    try:
        content, sealed = checksum.open_sealed(body)
        lease = Lease.model_validate(content)
    except ValueError:
        return None
    return lease if sealed and lease.format == FORMAT else None


def write(layout: Layout, lease: Lease, etag: str | None) -> Step[str | None]:
    """Put the lease of the driver that owns head in the place of the object with `etag`; None: there is none.

    Whatever else is there is replaced, as long as head is the driver's: another generation's lease may be younger in
    time, and of a chain that was restored since even higher in number. A driver that was replaced gets nowhere, however
    late it writes: whoever replaced it writes after it has taken head over, and this put is refused from then on.

    Returns:
        The new ETag; None where head is another driver's.

    """
    body = encode(lease)
    while True:
        answer = yield Put(layout.lease, body, etag)
        if isinstance(answer, Written):
            return answer.etag
        # The lease first, then head: what is replaced was there while head was ours.
        found = yield Get(layout.lease)
        if isinstance(found, Found) and found.body == body:
            return found.etag
        head = yield from chain.there(layout)
        if head is None or head.owner != lease.owner:
            return None
        etag = found.etag if isinstance(found, Found) else None


def note(layout: Layout, lease: Lease, etag: str | None) -> Step[str]:
    """Put the sign of life of a standby, which nobody but people reads; return its new ETag. The last one stays."""
    body = encode(lease)
    while True:
        answer = yield Put(layout.standby, body, etag)
        if isinstance(answer, Written):
            return answer.etag
        found = yield Get(layout.standby)
        etag = found.etag if isinstance(found, Found) else None
