"""Ports: different ones, bindable, outside the range of outgoing connections."""

from __future__ import annotations

import socket

from infra.embedded.ports import HOST, below_ephemeral, free_ports


def test_many_ports_are_distinct_and_can_be_bound_together() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    sockets = [socket.socket() for _ in ports]
    try:
        for one, port in zip(sockets, ports, strict=True):
            one.bind((HOST, port))
    finally:
        for one in sockets:
            one.close()


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    assert below_ephemeral("32768\t60999\n") == range(15000, 32768)
    assert not below_ephemeral("1024 65535")
    assert not below_ephemeral("15500 65535")
