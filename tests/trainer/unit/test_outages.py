"""Which errors of the user's functions say that something is away, and which are mistakes."""

import socket
import urllib.error
from email.message import Message

import pytest
from tftrainer.runtime.outages import is_outage


class OfTensorFlow(Exception):  # noqa: N818 -- in the place of tf.errors.UnavailableError
    pass


OfTensorFlow.__module__ = "tensorflow.python.framework.errors_impl"
OfTensorFlow.__name__ = "UnavailableError"


class OfTheUser(Exception):  # noqa: N818
    pass


OfTheUser.__name__ = "UnavailableError"


def answered(status: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("http://data/mnist", status, "", Message(), None)


def raised_while_handling(first: Exception) -> Exception:
    try:
        try:
            raise first
        except type(first):
            raise RuntimeError("no data")  # noqa: B904 -- as users write it
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        pytest.param(ConnectionRefusedError(), True, id="nobody listens"),
        pytest.param(ConnectionResetError(), True, id="cut off"),
        pytest.param(TimeoutError(), True, id="no answer"),
        pytest.param(socket.gaierror(), True, id="a name that is not resolved"),
        pytest.param(urllib.error.URLError(TimeoutError()), True, id="the same in urllib's words"),
        pytest.param(urllib.error.URLError("unknown url type: htp"), False, id="a bad address"),
        pytest.param(answered(503), True, id="a server that is overloaded"),
        pytest.param(answered(429), True, id="too many requests"),
        pytest.param(answered(404), False, id="data that are not there"),
        pytest.param(OfTensorFlow(), True, id="TensorFlow's own"),
        pytest.param(OfTheUser(), False, id="one that only has the name"),
        pytest.param(FileNotFoundError(), False, id="a file that is not there"),
        pytest.param(raised_while_handling(BrokenPipeError()), True, id="raised from an outage"),
        pytest.param(raised_while_handling(KeyError()), False, id="raised from a mistake"),
    ],
)
def test_an_outage_is_told_from_a_mistake(error: Exception, *, outage: bool) -> None:
    assert is_outage(error) is outage
