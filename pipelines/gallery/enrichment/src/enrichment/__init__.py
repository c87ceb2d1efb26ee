"""Payments in euros: each gets the rate that a service names, and keeps it whatever happens."""

import secrets
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import Pipeline, RecordedStep, Sum, ToKafka, Windowed, json_records

RATES = {"CHF": Decimal("1.04"), "EUR": Decimal("1.00"), "GBP": Decimal("1.15"), "USD": Decimal("0.86")}
ADDED = "rate decimal(12, 6) NOT NULL, euros decimal(14, 2) NOT NULL"


def ask(currency: str) -> Decimal:
    """Stand for a service that answers otherwise at every call. Yours needs a time-out, and retries in here."""
    return RATES[currency] + Decimal(secrets.randbelow(1_000)) / 1_000_000


def convert(rows: pa.Table) -> pa.Table:
    """Add rate and euros to the accepted rows of a shard; ask once for each currency, not for each row."""
    currencies, amounts = rows["currency"].to_pylist(), rows["amount"].to_pylist()
    known = {currency: ask(currency) for currency in sorted(set(currencies))}
    rates = [known[currency] for currency in currencies]
    euros = [(amount * rate).quantize(Decimal("0.01")) for amount, rate in zip(amounts, rates, strict=True)]
    return pa.table({"rate": pa.array(rates, pa.decimal128(12, 6)), "euros": pa.array(euros, pa.decimal128(14, 2))})


def payments(frame: DataFrame) -> DataFrame:
    """Read a payment. It looks nothing up: a repeat has to come to the same."""
    rows = json_records(frame, "id string, event_time_ms long, shop string, currency string, amount decimal(10, 2)")
    unknown = f.when(~f.col("currency").isin(*RATES), "unknown_currency")
    return rows.withColumn("reason", f.coalesce("reason", unknown))


pipeline = Pipeline(
    transform=payments,
    columns="shop string, currency string NOT NULL, amount decimal(10, 2) NOT NULL",
    # The answers are recorded before anything is published; a repeat of the epoch reads them and does not ask.
    recorded=RecordedStep("converted", convert, adds=ADDED),
    rows=(ToKafka("in_euros", key="shop"),),
    windows=(Windowed(by="shop", values={"euros": Sum("euros")}, to=ToKafka("per_hour", key="shop")),),
    window_ms=3_600_000,
    lateness_ms=600_000,
)
