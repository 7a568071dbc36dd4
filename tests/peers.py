"""NetworkPolicyPeers that the chart, the operator and the API server take, or all refuse."""

from typing import Any

Peer = dict[str, Any]


def _selected(**expression: object) -> Peer:
    return {"podSelector": {"matchExpressions": [{"key": "app", **expression}]}}


TAKEN: dict[str, Peer] = {
    "all pods": {"namespaceSelector": {}},
    "pods of a namespace": {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
        "podSelector": {"matchLabels": {"app": "prometheus", "empty": ""}},
    },
    "one of several": _selected(operator="In", values=["a", "b"]),
    "any value": _selected(operator="Exists"),
    "addresses": {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
    "addresses of IPv6": {"ipBlock": {"cidr": "fd00::/8", "except": ["fd00:1::/32"]}},
}

REFUSED: dict[str, tuple[Peer, str, str]] = {
    "nothing": ({}, "", "needs podSelector, namespaceSelector or both"),
    "a field that does not exist": ({"pods": {}}, ".pods", "unknown field"),
    "labels without matchLabels": (
        {"namespaceSelector": {"kubernetes.io/metadata.name": "monitoring"}},
        ".namespaceSelector.kubernetes.io/metadata.name",
        "unknown field; known fields are matchLabels, matchExpressions",
    ),
    "a label's value that is no string": (
        {"podSelector": {"matchLabels": {"release": 2}}},
        ".podSelector.matchLabels.release",
        'must be a string: write "2" in quotes',
    ),
    "a label's value with a space": (
        {"podSelector": {"matchLabels": {"app": "a b"}}},
        ".podSelector.matchLabels",
        '"a b" cannot be used; the value of a label has at most 63 letters',
    ),
    "a label's name with a space": (
        {"podSelector": {"matchLabels": {"an app": "a"}}},
        ".podSelector.matchLabels",
        '"an app" is no name of a label',
    ),
    "a label's name with an empty part": (
        {"podSelector": {"matchLabels": {"example..com/app": "a"}}},
        ".podSelector.matchLabels",
        '"example..com/app" is no name of a label',
    ),
    "an operator that does not exist": (
        _selected(operator="in", values=["a"]),
        ".podSelector.matchExpressions[0].operator",
        "did you mean In?",
    ),
    "In without values": (
        _selected(operator="In"),
        ".podSelector.matchExpressions[0]",
        "the operator In needs values",
    ),
    "Exists with values": (
        _selected(operator="Exists", values=["a"]),
        ".podSelector.matchExpressions[0]",
        "the operator Exists takes no values",
    ),
    "an address without a length": (
        {"ipBlock": {"cidr": "10.0.0.0"}},
        ".ipBlock.cidr",
        'is "10.0.0.0"; it must be a range of addresses such as 10.0.0.0/8',
    ),
    "a netmask": (
        {"ipBlock": {"cidr": "10.0.0.0/255.0.0.0"}},
        ".ipBlock.cidr",
        'is "10.0.0.0/255.0.0.0"; it must be',
    ),
    "an address that does not exist": (
        {"ipBlock": {"cidr": "10.300.0.0/16"}},
        ".ipBlock.cidr",
        'is "10.300.0.0/16"; it must be',
    ),
    "no range": ({"ipBlock": {"except": ["10.1.0.0/16"]}}, ".ipBlock.cidr", "is required"),
    "addresses and pods": (
        {"ipBlock": {"cidr": "10.0.0.0/8"}, "namespaceSelector": {}},
        "",
        "or else ipBlock alone",
    ),
}
"""Peers, the path of the field that is wrong, and what the operator says."""

OUTSIDE = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["192.168.0.0/16"]}}
"""A peer that the operator and the API server refuse, and a schema cannot."""
