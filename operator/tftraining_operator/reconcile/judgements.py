"""Which pods the API server has accepted in dry runs, so that it is not asked twice the same.

Called by the applier. What is refused all the same is refused when the pod is created.
"""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from tftraining_operator.core.template_shape import shape

_Object = dict[str, Any]

REMEMBERED = timedelta(minutes=10)
"""The API server may be another one, or know other rules, after that."""
_MOST = 1000


class Judgements:
    """The shapes of pods that were accepted, and when."""

    def __init__(self) -> None:
        self._accepted: OrderedDict[bytes, datetime] = OrderedDict()

    def unknown(self, samples: Sequence[_Object], now: datetime) -> list[_Object]:
        """Return the pods that were not accepted lately."""
        return [
            each
            for each in samples
            if (known := self._accepted.get(_digest(each))) is None or now - known > REMEMBERED
        ]

    def accept(self, sample: _Object, now: datetime) -> None:
        """Note that the API server accepts a pod."""
        self._accepted[_digest(sample)] = now
        self._accepted.move_to_end(_digest(sample))
        while len(self._accepted) > _MOST:
            self._accepted.popitem(last=False)


def _digest(pod: _Object) -> bytes:
    return blake2b(shape(pod).encode(errors="surrogatepass"), digest_size=16).digest()
