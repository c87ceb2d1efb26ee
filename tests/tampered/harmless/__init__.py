"""What may be altered without anybody objecting: in which field of which file, how, and why no claim rests on it.

An alteration that is not listed has to be caught. One that is listed and caught is well, too: an entry of which each
alteration is caught is stale, and the command says so.
"""

from __future__ import annotations

from tests.tampered.harmless.alike import ALIKE
from tests.tampered.harmless.controls import OF_A_CONTROL
from tests.tampered.harmless.entry import Harmless
from tests.tampered.harmless.gateways import OF_A_GATEWAY
from tests.tampered.harmless.judged_otherwise import JUDGED_OTHERWISE
from tests.tampered.harmless.only_told import ONLY_TOLD
from tests.tampered.harmless.witnesses import WITNESSES

__all__ = ["HARMLESS", "Harmless"]

HARMLESS: tuple[Harmless, ...] = (
    *ALIKE,
    *ONLY_TOLD,
    *JUDGED_OTHERWISE,
    *WITNESSES,
    *OF_A_GATEWAY,
    *OF_A_CONTROL,
)
"""All that may be altered, the first that covers an alteration before the others."""
