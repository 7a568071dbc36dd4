"""The operator's own settings, and what it says when one cannot be used."""

from __future__ import annotations

import json
import re

import pytest
from tftraining_operator.api.disruption import DisruptionBudget
from tftraining_operator.api.network import NetworkPolicy
from tftraining_operator.controller.settings import Settings, SettingsError

from tests import peers

NODES = {"ipBlock": {"cidr": "10.0.0.0/16", "except": []}}


def test_without_an_environment_the_defaults_hold() -> None:
    assert Settings.from_environment({}) == Settings()


def test_settings_are_read_from_the_environment() -> None:
    found = Settings.from_environment(
        {
            "TFTRAINING_NAMESPACES": "team-a, team-b,",
            "TFTRAINING_TRAINER_IMAGE": "my/trainer:2",
            "TFTRAINING_LOG_LEVEL": "debug",
            "TFTRAINING_LOG_FORMAT": "json",
            "TFTRAINING_PROGRESS_SECONDS": "0.5",
            "TFTRAINING_RESYNC_SECONDS": "60",
            "TFTRAINING_WORKERS": "4",
            "TFTRAINING_DISRUPTION_BUDGET": "Essential",
            "TFTRAINING_METRICS_PORT": "9090",
            "TFTRAINING_TRACES_ENDPOINT": "http://collector:4318/v1/traces",
            "TFTRAINING_LEASE_NAMESPACE": "here",
            "TFTRAINING_LEASE_NAME": "one-of-us",
            "TFTRAINING_LEASE_IDENTITY": "me",
            "TFTRAINING_LEASE_SECONDS": "30",
            "TFTRAINING_SHARDS": "3",
            "TFTRAINING_JOB_POD_LABELS": '{"example.com/cost-center": "42", "team": ""}',
            "TFTRAINING_JOB_POD_ANNOTATIONS": '{"note": "two, words"}',
        }
    )
    lease = (found.lease_namespace, found.lease_name, found.lease_identity, found.lease_seconds)
    assert lease == ("here", "one-of-us", "me", 30)
    assert found.shards == 3
    assert found.pod_metadata.labels == {"example.com/cost-center": "42", "team": ""}
    assert found.pod_metadata.annotations == {"note": "two, words"}
    assert found.metrics_port == 9090
    assert found.traces_endpoint == "http://collector:4318/v1/traces"
    assert found.namespaces == ("team-a", "team-b")
    assert (found.trainer_image, found.log_level, found.log_format) == (
        "my/trainer:2",
        "debug",
        "json",
    )
    assert (found.progress_seconds, found.resync_seconds, found.workers) == (0.5, 60, 4)
    assert found.disruption_budget is DisruptionBudget.ESSENTIAL


def test_who_may_read_progress_is_read_from_the_environment() -> None:
    monitors = [{"namespaceSelector": {}, "podSelector": {"matchLabels": {}}}, NODES]
    found = Settings.from_environment(
        {
            "TFTRAINING_NETWORK_POLICY": "Open",
            "TFTRAINING_POD_NAMESPACE": "tftraining-system",
            "TFTRAINING_POD_LABELS": "app.kubernetes.io/name=operator, release=a",
            "TFTRAINING_PROGRESS_READERS": json.dumps(monitors),
        }
    ).networking
    assert found.default is NetworkPolicy.OPEN
    operator, monitoring, nodes = found.readers
    labels = {"app.kubernetes.io/name": "operator", "release": "a"}
    assert operator["podSelector"] == {"matchLabels": labels}
    name = {"kubernetes.io/metadata.name": "tftraining-system"}
    assert operator["namespaceSelector"] == {"matchLabels": name}
    assert monitoring == {"namespaceSelector": {}, "podSelector": {}}, "as it will be stored"
    assert nodes == {"ipBlock": {"cidr": "10.0.0.0/16"}}


@pytest.mark.parametrize("peer", peers.TAKEN.values(), ids=peers.TAKEN)
def test_a_reader_that_the_api_server_takes_is_kept_as_it_is(peer: peers.Peer) -> None:
    environment = {"TFTRAINING_PROGRESS_READERS": json.dumps([peer])}
    assert Settings.from_environment(environment).networking.readers == (peer,)


def test_a_range_of_addresses_is_written_as_every_version_of_kubernetes_takes_it() -> None:
    block = {"cidr": "10.0.0.5/8", "except": ["10.1.2.3/16"]}
    environment = {"TFTRAINING_PROGRESS_READERS": json.dumps([{"ipBlock": block}])}
    (found,) = Settings.from_environment(environment).networking.readers
    assert found == {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}


@pytest.mark.parametrize(("peer", "path", "problem"), peers.REFUSED.values(), ids=peers.REFUSED)
def test_a_reader_that_would_cost_jobs_their_isolation_is_refused_with_its_field(
    peer: peers.Peer, path: str, problem: str
) -> None:
    environment = {"TFTRAINING_PROGRESS_READERS": json.dumps([{"podSelector": {}}, peer])}
    with pytest.raises(SettingsError) as error:
        Settings.from_environment(environment)
    assert str(error.value).startswith(f"TFTRAINING_PROGRESS_READERS[1]{path}: ")
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("everybody", ": Invalid JSON", id="no JSON"),
        pytest.param("{}", ": must be a list, not an object", id="no list"),
        pytest.param("[null]", "[0]: must be an object, not null", id="no peer"),
        pytest.param(
            json.dumps([peers.OUTSIDE]),
            "[0].ipBlock: 192.168.0.0/16 in except is no part of 10.0.0.0/8",
            id="an exception outside of the range",
        ),
    ],
)
def test_readers_that_are_no_list_of_peers_are_refused(value: str, problem: str) -> None:
    name = "TFTRAINING_PROGRESS_READERS"
    with pytest.raises(SettingsError, match=re.escape(name + problem)):
        Settings.from_environment({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("NETWORK_POLICY", "Closed", id="a policy that is none"),
        pytest.param("DISRUPTION_BUDGET", "All", id="a budget that is none"),
        pytest.param("POD_LABELS", "operator", id="a label without a value"),
        pytest.param("LOG_LEVEL", "loud", id="a level that is none"),
        pytest.param("LOG_FORMAT", "xml", id="a format that is none"),
        pytest.param("PROGRESS_SECONDS", "often", id="a word for a number"),
        pytest.param("PROGRESS_SECONDS", "30", id="reports older than they may be"),
        pytest.param("RESYNC_SECONDS", "0", id="zero"),
        pytest.param("PROGRESS_SECONDS", "nan", id="no number"),
        pytest.param("RESYNC_SECONDS", "inf", id="without end"),
        pytest.param("WORKERS", "-1", id="less than none"),
        pytest.param("WORKERS", "0.5", id="half a worker"),
        pytest.param("SHARDS", "0", id="no shard"),
        pytest.param("SHARDS", "65", id="more shards than anybody needs"),
        pytest.param("SHARDS", "2", id="shards without leases"),
        pytest.param("JOB_POD_LABELS", "a=b", id="labels that are no JSON"),
        pytest.param("JOB_POD_ANNOTATIONS", '{"a": 1}', id="an annotation that is no string"),
        pytest.param("METRICS_PORT", "65536", id="a port that is none"),
        pytest.param("TRACES_ENDPOINT", "collector:4318", id="an address that is no URL"),
        pytest.param("LEASE_SECONDS", "0", id="a lease that is over when it begins"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(name: str, value: str) -> None:
    environment = {"TFTRAINING_POD_NAMESPACE": "here", f"TFTRAINING_{name}": value}
    with pytest.raises(SettingsError, match=re.escape(f"TFTRAINING_{name} is '{value}'")):
        Settings.from_environment(environment)


@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        pytest.param(
            "JOB_POD_LABELS",
            {"tftraining.dev/role": "ps"},
            "tftraining.dev/role is set by the operator itself",
            id="a label of ours",
        ),
        pytest.param(
            "JOB_POD_LABELS",
            {"app.kubernetes.io/managed-by": "x"},
            "app.kubernetes.io/managed-by is set by the operator itself",
            id="a label of others that we set",
        ),
        pytest.param(
            "JOB_POD_ANNOTATIONS",
            {"tftraining.dev/workers": "1"},
            "tftraining.dev/workers is set by the operator itself",
            id="an annotation of ours",
        ),
        pytest.param("JOB_POD_LABELS", {"a b": "c"}, "'a b' is no name", id="no name"),
        pytest.param(
            "JOB_POD_LABELS", {"a..b/c": "d"}, "'a..b/c' is no name", id="a prefix with a gap"
        ),
        pytest.param(
            "JOB_POD_LABELS", {"a.-b/c": "d"}, "'a.-b/c' is no name", id="a part that begins with -"
        ),
        pytest.param("JOB_POD_LABELS", {"/b": "c"}, "'/b' is no name", id="an empty prefix"),
        pytest.param("JOB_POD_LABELS", {"a/b/c": "d"}, "'a/b/c' is no name", id="two prefixes"),
        pytest.param(
            "JOB_POD_LABELS", {"a": "b c"}, "the value of a is 'b c'", id="a label's value"
        ),
        pytest.param(
            "JOB_POD_LABELS", {"a": "b" * 64}, "at most 63", id="a label that is too long"
        ),
        pytest.param(
            "JOB_POD_ANNOTATIONS", {"a": "b" * 1025}, "at most 1024", id="an annotation too long"
        ),
        pytest.param(
            "JOB_POD_ANNOTATIONS", {f"a{i}": "" for i in range(33)}, "at most 32", id="too many"
        ),
    ],
)
def test_a_label_or_annotation_that_pods_cannot_have_is_named(
    name: str, given: dict[str, str], problem: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"TFTRAINING_{name}: ")) as error:
        Settings.from_environment({f"TFTRAINING_{name}": json.dumps(given)})
    assert problem in str(error.value)
