"""kind's configuration has workarounds only on machines that need them."""

import tomllib
from dataclasses import replace

import pytest
import yaml

from tools.cluster import kind
from tools.cluster.machine import Machine

PLAIN = Machine(root=True, debian="", cgroup_v1=False, sys_resource=True, architecture="amd64")


def _config(machine: Machine, workers: int = 0) -> dict[str, object]:
    config = yaml.safe_load(kind.config("name", workers, machine))
    assert isinstance(config, dict)
    return config


@pytest.mark.parametrize(
    ("workers", "roles"),
    [
        pytest.param(0, ["control-plane"], id="one node"),
        pytest.param(2, ["control-plane", "worker", "worker"], id="two workers"),
    ],
)
def test_the_cluster_has_the_requested_nodes(workers: int, roles: list[str]) -> None:
    assert _config(PLAIN, workers)["nodes"] == [{"role": role} for role in roles]


def test_a_machine_without_restrictions_needs_no_patches() -> None:
    assert not {"kubeadmConfigPatches", "containerdConfigPatches"} & _config(PLAIN).keys()


def test_kubelet_is_allowed_to_run_on_cgroup_v1() -> None:
    [patch] = _config(replace(PLAIN, cgroup_v1=True))["kubeadmConfigPatches"]  # type: ignore[misc]

    assert yaml.safe_load(patch) == {"kind": "KubeletConfiguration", "failCgroupV1": False}


def test_without_the_capability_containerd_does_not_adjust_oom_scores() -> None:
    patches = _config(replace(PLAIN, sys_resource=False))["containerdConfigPatches"]
    parsed = [tomllib.loads(patch) for patch in patches]  # type: ignore[attr-defined]

    assert [patch["version"] for patch in parsed] == [2, 3]
    for patch in parsed:
        [plugin] = patch["plugins"].values()
        assert plugin == {"restrict_oom_score_adj": True}


def test_no_subnet_is_in_a_private_range() -> None:
    networking = _config(PLAIN)["networking"]

    assert isinstance(networking, dict)
    assert networking["podSubnet"].startswith("198.19.")
    assert networking["serviceSubnet"].startswith("198.19.")
