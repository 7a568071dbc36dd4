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


def filled(node: Any, wanted: Any) -> Any:  # noqa: ANN401 - any node of ruamel, and plain data
    """Return plain data as nodes, with the comments of `node` where both are the same.

    `node` is changed, and may be None. Items of a list are the same if they have the same name.
    """
    if isinstance(wanted, Mapping):
        made = node if isinstance(node, CommentedMap) else CommentedMap()
        for key in [key for key in made if key not in wanted]:
            del made[key]
        for key, value in wanted.items():
            made[key] = filled(made.get(key), value)
        return made
    if isinstance(wanted, list):
        items = node if isinstance(node, CommentedSeq) else CommentedSeq()
        for at, value in enumerate(wanted):
            if at < len(items) and _is_same(items[at], value):
                items[at] = filled(items[at], value)
            else:
                items.insert(at, filled(None, value))
        del items[len(wanted) :]
        return items
    return node if node == wanted and type(wanted) is not bool else wanted


def laid(node: Any, over: Any) -> Any:  # noqa: ANN401 - any nodes of ruamel
    """Return two nodes as one that has the comments of both; both are changed.

    `filled` gives it the data that Kubernetes would merge them to.
    """
    if isinstance(node, CommentedMap) and isinstance(over, CommentedMap):
        for key in over:
            node[key] = laid(node.get(key), over[key])
            if key in over.ca.items:
                node.ca.items[key] = over.ca.items[key]
        return node
    if isinstance(node, CommentedSeq) and _has_names(node) and _has_names(over):
        for item in over:
            at = next((at for at, known in enumerate(node) if _is_same(known, item)), None)
            if at is None:
                node.append(item)
            else:
                node[at] = laid(node[at], item)
        return node
    return over


def _has_names(items: Any) -> bool:  # noqa: ANN401
    return all(isinstance(item, Mapping) and "name" in item for item in items)


def _is_same(item: Any, wanted: Any) -> bool:  # noqa: ANN401
    if isinstance(item, Mapping) and isinstance(wanted, Mapping) and "name" in wanted:
        return bool(item.get("name") == wanted["name"])
    return bool(item == wanted)
