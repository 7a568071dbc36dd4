from bench.recommender.__main__ import ONE, OURS, SAVING, STOCK, broken_promises
from bench.recommender.runs import Run


def run(speed: float, *, auc: float = 0.8) -> list[Run]:
    return [Run(speed, seconds=10, saves=1, auc=auc, best_auc=0.93, chief_peak=600)]


def test_a_training_that_saves_has_to_keep_the_promise_as_well() -> None:
    found = {ONE: run(5000), STOCK: run(1000), OURS: run(1500), SAVING: run(960)}

    assert list(broken_promises(found)) == [
        f"{SAVING}: 0.96 times as fast as stock Keras; promised: 1.0"
    ]
    assert not list(broken_promises({**found, SAVING: run(1000)}))
