"""Copies of YAML nodes with their comments, in which merged keys (<<) and aliases are written out.

A merge or an alias would refer to a part of the TFJob that is elsewhere now, or gone.
"""

import copy
from collections.abc import Collection, Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq


def copied(node: Any) -> Any:  # noqa: ANN401 - any node of ruamel, or plain data
    """Return a copy of a node and of all that is below it."""
    if isinstance(node, CommentedMap):
        made = like(node)
        for key in node:
            made[key] = copied(node[key])
        return made
    if isinstance(node, CommentedSeq):
        items = CommentedSeq(copied(item) for item in node)
        _take_comments(node, items, None)
        return items
    return copy.deepcopy(node)


def like(node: Mapping[str, Any], keys: Collection[str] | None = None) -> CommentedMap:
    """Return an empty map with the comments of another one, or with those of some keys only."""
    made = CommentedMap()
    if isinstance(node, CommentedMap):
        _take_comments(node, made, keys)
    return made


def _take_comments(node: Any, made: Any, keys: Collection[str] | None) -> None:  # noqa: ANN401
    made.ca.comment = copy.deepcopy(node.ca.comment)
    for key, comment in node.ca.items.items():
        if keys is None or key in keys:
            made.ca.items[key] = copy.deepcopy(comment)
    if keys is None and node.fa.flow_style():
        made.fa.set_flow_style()
