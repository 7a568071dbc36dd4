"""Examples per second and input wait, from what each worker says that it has done."""

import pytest
from tftrainer.config.cluster import Role
from tftrainer.runtime.progress import Phase, Snapshot
from tftrainer.runtime.throughput import Throughput, Work, WorkerRate


def test_rates_are_those_of_each_worker_and_of_all() -> None:
    throughput = Throughput(["worker-0", "worker-1"])
    for second in range(1, 6):
        works = [Work(100 * second, 0.25 * second, 1.0 * second), Work(50 * second, 0.0, second)]
        throughput.add(float(second), works)

    assert throughput.examples == 750
    assert throughput.recent(5.0) == throughput.overall == pytest.approx(150)
    assert throughput.workers(5.0) == (
        WorkerRate("worker-0", pytest.approx(100), pytest.approx(0.25)),
        WorkerRate("worker-1", pytest.approx(50), 0.0),
    )


def test_what_came_before_the_first_report_is_no_part_of_a_rate() -> None:
    throughput = Throughput(["worker-0"])
    throughput.add(0.0, [Work()])
    throughput.add(60.0, [Work(64, 0.0, 30.0)])
    assert throughput.recent(60.0) is None
    assert throughput.workers(60.0) == (WorkerRate("worker-0", 0.0, None),)

    throughput.add(61.0, [Work(1064, 0.5, 31.0)])
    assert throughput.overall == pytest.approx(1000)
    assert throughput.workers(61.0) == (
        WorkerRate("worker-0", pytest.approx(1000), pytest.approx(0.5)),
    )


def test_a_worker_that_does_nothing_any_more_has_neither_speed_nor_input_wait() -> None:
    throughput = Throughput(["worker-0", "worker-1"])
    for second in range(1, 31):
        ended = min(second, 5)
        throughput.add(
            float(second), [Work(10 * second, 0.0, second), Work(10 * ended, 0.0, ended)]
        )

    speeds = [worker.examples_per_second for worker in throughput.workers(30.0)]
    assert speeds == [pytest.approx(10), 0.0]
    assert [worker.input_wait for worker in throughput.workers(30.0)] == [0.0, None]
    assert throughput.recent(30.0) == pytest.approx(10)
    assert throughput.recent(60.0) == 0.0


def test_workers_that_nobody_looks_at_for_long_show_nothing() -> None:
    """As while the chief validates, or waits for a step that does not end."""
    throughput = Throughput(["worker-0"])
    for second in range(1, 6):
        throughput.add(float(second), [Work(10 * second, 0.0, second)])
    snapshot = Snapshot(
        role=Role.CHIEF,
        phase=Phase.TRAINING,
        examples_per_second=throughput.recent(5.0),
        workers=throughput.workers(5.0),
    )

    def shown(now: float) -> tuple[float, float, float | None]:
        document = snapshot.document(now)
        (worker,) = document["workers"]
        return document["examplesPerSecond"], worker["examplesPerSecond"], worker["inputWait"]

    assert shown(15.0) == (10.0, 10.0, 0.0)
    assert shown(25.1) == (0.0, 0.0, None)


def test_only_the_newest_seconds_count() -> None:
    throughput = Throughput(["worker-0"])
    examples, waiting = 0, 0.0
    for second in range(1, 41):
        examples += 10 if second <= 20 else 100
        waiting += 0.9 if second <= 20 else 0.1
        throughput.add(float(second), [Work(examples, waiting, float(second))])

    assert throughput.workers(40.0) == (
        WorkerRate("worker-0", pytest.approx(100), pytest.approx(0.1)),
    )
