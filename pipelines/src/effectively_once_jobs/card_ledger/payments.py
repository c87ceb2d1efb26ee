"""The payment service, as a step on an executor calls it."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field

import orjson
import urllib3
from urllib3 import Retry

from effectively_once.errors import SettingsError

VARIABLE = "EFFECTIVELY_ONCE_PAYMENTS"
"""Environment of driver and executors: http://host:port of the service."""
TIMEOUT_S = 1.0
TRIES = 9
BACKOFF_S = 0.05
"""0.05 s before the second try, then twice as long each time: nine tries wait for 13 s in all."""
UNKNOWN_CARD = "unknown_card"
STALE_STATUS = 412


class PaymentsError(Exception):
    """The service does not answer, or refuses what it should not; the step fails and is run again."""


class StaleBalanceError(PaymentsError):
    """The service has a newer balance of the card: whoever calls was replaced, or went back to an older state."""


@dataclass(frozen=True)
class Payments:
    """Calls of one run of a step. A call that is not answered is made again: it may have taken effect, or not.

    Attributes:
        address: of the service.
        caller: tells the service's journal which calls are of one run; it decides nothing.
    """

    address: str
    caller: str = field(default_factory=lambda: uuid.uuid4().hex)
    _http: urllib3.PoolManager = field(
        default_factory=lambda: urllib3.PoolManager(
            timeout=TIMEOUT_S,
            # Every method: urllib3 by itself repeats no POST.
            retries=Retry(
                TRIES - 1,
                allowed_methods=None,
                status_forcelist=(503,),
                backoff_factor=BACKOFF_S,
                raise_on_status=False,
            ),
        ),
        repr=False,
    )

    @classmethod
    def here(cls) -> Payments:
        """The service that the environment names. Raises SettingsError."""
        address = os.environ.get(VARIABLE, "")
        if not address.startswith(("http://", "https://")):
            raise SettingsError(
                f"the address of the payment service is {address!r}",
                f"environment: {VARIABLE}",
                "Set it for driver and executors: http://host:port.",
            )
        return cls(address)

    def charge(self, card: str, amount: int, transaction: str, key: str | None = None) -> str:
        """Take an amount from a card; each call that arrives takes it once more, unless a key tells them for one.

        Returns:
            `charged`, or the code of a refusal that concerns this transaction alone.

        Raises:
            PaymentsError: it is not known whether it took effect.

        """
        body = {"card": card, "amount": amount, "transaction": transaction}
        status, code = self._post("charge", body, {"Idempotency-Key": key} if key is not None else {})
        return "charged" if status == 200 else code

    def set_card_balance(self, card: str, balance: int, version: int) -> str:
        """Say what was taken from a card in all; to say it again changes nothing.

        Args:
            card: of the balance.
            balance: in cents.
            version: grows with the balance, and is the same whenever it is told again.

        Returns:
            `set`, or `unknown_card`.

        Raises:
            StaleBalanceError: the service has a newer version.
            PaymentsError: it is not known whether it took effect, or the service has another balance of this version.

        """
        status, code = self._post("set_card_balance", {"card": card, "balance": balance, "version": version}, {})
        if status == STALE_STATUS:
            raise StaleBalanceError(f"card {card!r} has a newer balance than version {version}")
        if status == 200 or code == UNKNOWN_CARD:
            return "set" if status == 200 else code
        raise PaymentsError(f"version {version} of card {card!r} is refused: {code}")

    def _post(self, path: str, body: dict[str, object], headers: dict[str, str]) -> tuple[int, str]:
        """Status, and the code of a refusal. Raises PaymentsError."""
        url = f"{self.address}/{path}"
        whole = {"Content-Type": "application/json", "X-Caller": self.caller, **headers}
        try:
            answer = self._http.request("POST", url, body=orjson.dumps(body), headers=whole)
            if answer.status == 200:
                return 200, ""
            code = str(orjson.loads(answer.data)["error"])
        except (urllib3.exceptions.HTTPError, ValueError, KeyError, TypeError) as error:
            raise PaymentsError(f"{url} gave no answer in {TRIES} tries: {error}") from error
        if answer.status >= 500:
            raise PaymentsError(f"{url} answered {answer.status} {code} in {TRIES} tries")
        return answer.status, code
