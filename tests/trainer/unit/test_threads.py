"""Among how many threads each logical device divides an operation."""

from __future__ import annotations

import os

import pytest
from tftrainer.runtime.threads import threads_of_each


@pytest.mark.parametrize(
    ("cores", "devices", "threads"), [(2, 1, 0), (2, 2, 1), (8, 2, 4), (8, 3, 2), (2, 8, 1)]
)
def test_the_cores_are_divided_among_devices(
    monkeypatch: pytest.MonkeyPatch, cores: int, devices: int, threads: int
) -> None:
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(cores)))
    assert threads_of_each(devices) == threads


def test_a_number_of_the_users_own_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "3")
    assert threads_of_each(2) == 0
