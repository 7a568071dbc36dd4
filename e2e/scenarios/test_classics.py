"""The classics run as their manifests stand, and give the numbers that the guide states."""

import re

from e2e.scenarios.classics import classic, found, logs_of_chiefs, metrics
from e2e.scenarios.space import Space


def test_programs_place_what_they_compute_and_add_it_up(space: Space) -> None:
    placement, sums = logs_of_chiefs(space, classic("placement"), classic("both-ways-sum"))

    # The program ends with 1 if a value or a device is wrong; so here the values, once, by hand.
    values = metrics(space, "placement")
    assert values["equal slices, weighted mean"] == values["unequal slices, weighted mean"] == 500.5
    assert values["unequal slices, mean of means"] == 417
    devices = {line.split()[-1] for line in placement.splitlines() if "/job:" in line}
    tasks = ("worker/replica:0/task:0", "worker/replica:0/task:1", "ps/replica:0/task:0")
    assert devices == {f"/job:{task}/device:CPU:0" for task in tasks}

    totals = [int(total) for total in re.findall(r"(\d+)   possible: ", sums)]
    assert len(totals) == 4
    assert totals.pop(2) in (9, 11, 15)
    assert totals == [15, 15, 15]


def test_layers_on_two_workers_give_the_losses_of_one_process(space: Space) -> None:
    (log,) = logs_of_chiefs(space, classic("model-parallel"))

    # The program ends with 1 if the losses differ by more than 1e-5, or a device is wrong.
    devices = re.findall(
        r"^(?:hidden layer|loss) +/job:worker/\S+/task:(\d)/\S+$", log, re.MULTILINE
    )
    assert devices == ["0", "1"]
    assert float(found(r"those of one process differ by (\S+)", log)[0]) <= 1e-5


def test_each_ps_holds_half_of_the_table(space: Space) -> None:
    (log,) = logs_of_chiefs(space, classic("embedding"))

    held = re.findall(r"/job:ps/replica:0/task:(\d)/\S+ holds (\S+) MB of the model", log)
    assert held == [("0", "12.8"), ("1", "12.8")]
    assert float(found(r"held-out accuracy (\S+),", log)[0]) >= 0.75
