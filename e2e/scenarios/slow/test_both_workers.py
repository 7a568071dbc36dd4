"""Both workers are lost at once: they train again as soon as both are back."""

from e2e.jobs import paced
from e2e.scenarios.drill import Drill, now

# TensorFlow takes no worker back while another one is silent, and then asks for it at an address
# that no pod has any more.
_AGAIN_SECONDS = 10


def test_one_hangs_while_the_other_is_replaced(drill: Drill) -> None:
    drill.start(paced(worker={"replicas": 2}))
    deleted, hung = drill.pod("worker", 0), drill.pod("worker", 1)
    before = drill.incarnation(hung)

    deleted.delete()
    hung.freeze()
    drill.wait_until_back(hung, before)
    back = now()
    drill.wait_for_steps(60)

    assert now() - back <= _AGAIN_SECONDS
    drill.expect_success(restarts=0)
