"""What SECURITY.md says of mTLS: TensorFlow's servers have none, and no place for a certificate."""

import re
import socket
import ssl
from collections.abc import Iterator

import pytest
import tensorflow as tf
from google.protobuf.descriptor import Descriptor
from harness import Servers, until

from tools.ports import free_port, is_listening

# RFC 9113: what a client sends first, with a SETTINGS frame (type 4) without settings, and what a
# server answers.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
_SETTINGS = 4


@pytest.fixture
def address(servers: Servers) -> tuple[str, int]:
    host, _, port = servers.cluster.addresses["ps"][0].rpartition(":")
    found = host, int(port)
    until(lambda: is_listening(found[1], found[0]), "a ps listens")
    return found


def test_a_server_speaks_to_whoever_comes_without_encryption(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(_PREFACE)
        header = connection.recv(9)
    assert header[3] == _SETTINGS, "an HTTP/2 server in the clear"


def test_a_server_does_not_know_tls(address: tuple[str, int]) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(address, timeout=10) as connection,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(connection).close()


@pytest.mark.parametrize("protocol", ["grpc+tls", "grpcs", "grpc+ssl"])
def test_no_protocol_of_servers_is_another_one(protocol: str) -> None:
    cluster = {"ps": [f"localhost:{free_port()}"]}
    with pytest.raises(tf.errors.NotFoundError) as failure:
        tf.distribute.Server(cluster, job_name="ps", task_index=0, protocol=protocol)
    factories = re.search(r"available server factories are: \[ (.*) \]", failure.value.message)
    assert factories is not None
    assert factories[1] == "GRPC_SERVER"


def test_the_configuration_of_a_server_has_no_place_for_a_certificate() -> None:
    names = set(_fields(tf.train.ServerDef.DESCRIPTOR, set()))
    assert "inter_op_parallelism_threads" in names, "fields of the session's configuration too"
    assert not {name for name in names if re.search("tls|ssl|cert|credential|auth", name)}


def _fields(message: Descriptor, seen: set[str]) -> Iterator[str]:
    """Yield the names of all fields of a message and of those within it."""
    seen.add(message.full_name)
    for field in message.fields:
        yield field.name
        inner = field.message_type
        if inner is not None and inner.full_name not in seen:
            yield from _fields(inner, seen)
