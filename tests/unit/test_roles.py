"""The table of roles is complete, and says of each trait which roles have it."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import Strategy
from tftraining_operator.core.roles import TABLE, Traits, traits

PARAMETER_SERVER, GANG, ALONE = Strategy

# For each trait, the initials of the roles that have it: Chief, Worker, Ps, Evaluator.
HAVE = {
    "in_cluster": ("CWP", "CW", "C"),
    "decides_success": ("C", "C", "C"),
    "drives_attempt": ("C", "CW", "C"),
    "loss_ends_attempt": ("CP", "CW", "C"),
    "serves": ("WP", "", ""),
    "tolerates_absence": ("W", "", ""),
    "opens_cluster_port": ("CWP", "CW", ""),
    "reports_progress": ("CE", "CE", "CE"),
    "mounts_checkpoint": ("CE", "CWE", "CE"),
}


def test_every_strategy_and_role_is_in_the_table() -> None:
    assert {(s, r) for s in TABLE for r in TABLE[s]} == {(s, r) for s in Strategy for r in Role}


def test_this_test_covers_every_trait() -> None:
    assert {field.name for field in fields(Traits)} == {*HAVE, "restart_policy"}


@pytest.mark.parametrize("trait", HAVE)
def test_which_roles_have_a_trait(trait: str) -> None:
    found = {
        strategy: {role for role in Role if getattr(traits(strategy, role), trait)}
        for strategy in Strategy
    }
    initials = {role.value[0].upper(): role for role in Role}
    assert found == {
        strategy: {initials[letter] for letter in letters}
        for strategy, letters in zip(Strategy, HAVE[trait], strict=True)
    }


@pytest.mark.parametrize(
    ("strategy", "role", "policy"),
    [
        pytest.param(PARAMETER_SERVER, Role.CHIEF, "Never", id="each start of a chief is counted"),
        pytest.param(PARAMETER_SERVER, Role.WORKER, "Always", id="a worker restarts in place"),
        pytest.param(PARAMETER_SERVER, Role.PS, "Always", id="a ps restarts in place"),
        pytest.param(GANG, Role.WORKER, "Never", id="a mirrored worker ends its gang"),
        pytest.param(ALONE, Role.EVALUATOR, "OnFailure", id="an evaluator ends once"),
    ],
)
def test_the_restart_policy_of_pods(strategy: Strategy, role: Role, policy: str) -> None:
    assert traits(strategy, role).restart_policy == policy


def test_what_drives_the_attempt_ends_it_when_lost_and_is_never_restarted_in_place() -> None:
    for strategy in Strategy:
        for role in Role:
            found = traits(strategy, role)
            if found.drives_attempt:
                assert (found.loss_ends_attempt, found.restart_policy) == (True, "Never")
            assert not (found.drives_attempt and found.serves)
