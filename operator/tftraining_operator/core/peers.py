"""NetworkPolicyPeers of the settings, read as strictly as the API server does.

A peer that it refuses in a NetworkPolicy costs every new job its isolation, so controller.settings
refuses it before the operator starts.
"""

from __future__ import annotations

import json
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from tftraining_operator.api.base import Model, StringMap
from tftraining_operator.api.problems import from_error
from tftraining_operator.core.labels import VALUE_FORM, is_label_name, is_label_value


class InvalidPeersError(Exception):
    """A list of peers cannot be used; the text says where it is wrong and why."""


class _Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


def _name(text: str) -> str:
    if not is_label_name(text):
        message = "{name} is no name of a label such as team or example.com/team"
        raise PydanticCustomError("label_name", message, {"name": json.dumps(text)})
    return text


def _value(text: str) -> str:
    if not is_label_value(text):
        message = f"{{value}} cannot be used; {VALUE_FORM}"
        raise PydanticCustomError("label_value", message, {"value": json.dumps(text)})
    return text


def _labels(labels: dict[str, str]) -> dict[str, str]:
    for name, value in labels.items():
        _name(name)
        _value(value)
    return labels


def _network(text: str) -> IPv4Network | IPv6Network:
    # An address without a length, or with a netmask, is one for Python and none for Kubernetes.
    if not text.partition("/")[2].isdecimal():
        raise ValueError(text)
    return ip_network(text, strict=False)


def _cidr(text: str) -> str:
    try:
        # Without the bits beyond its length, with which Kubernetes 1.36 refuses it.
        return str(_network(text))
    except ValueError:
        message = "is {text}; it must be a range of addresses such as 10.0.0.0/8 or fd00::/8"
        raise PydanticCustomError("cidr", message, {"text": json.dumps(text)}) from None


_Name = Annotated[str, AfterValidator(_name)]
_Value = Annotated[str, AfterValidator(_value)]
_CIDR = Annotated[str, AfterValidator(_cidr)]


class _Expression(Model):
    key: _Name
    operator: _Operator
    values: list[_Value] = Field(default=[])

    @model_validator(mode="after")
    def _has_values_if_it_compares(self) -> _Expression:
        compares = self.operator in (_Operator.IN, _Operator.NOT_IN)
        if compares != bool(self.values):
            needs = "needs values" if compares else "takes no values"
            message = "the operator {operator} {needs}"
            context = {"operator": self.operator.value, "needs": needs}
            raise PydanticCustomError("expression", message, context)
        return self


class _Selector(Model):
    match_labels: Annotated[StringMap, AfterValidator(_labels)] = Field(default={})
    match_expressions: list[_Expression] = Field(default=[])


class _IPBlock(Model):
    cidr: _CIDR
    except_: list[_CIDR] = Field(default=[], alias="except")

    @model_validator(mode="after")
    def _excepts_a_part(self) -> _IPBlock:
        whole = _network(self.cidr)
        for text in self.except_:
            part = _network(text)
            inside = part.version == whole.version and part.network_address in whole
            if not inside or part.prefixlen <= whole.prefixlen:
                message = "{part} in except is no part of {whole}"
                context = {"part": text, "whole": self.cidr}
                raise PydanticCustomError("except", message, context)
        return self


class _Peer(Model):
    pod_selector: _Selector | None = None
    namespace_selector: _Selector | None = None
    ip_block: _IPBlock | None = Field(default=None, alias="ipBlock")

    @model_validator(mode="after")
    def _is_pods_or_addresses(self) -> _Peer:
        pods = self.pod_selector is not None or self.namespace_selector is not None
        if pods == (self.ip_block is not None):
            message = "needs podSelector, namespaceSelector or both, or else ipBlock alone"
            raise PydanticCustomError("peer", message)
        return self


_PEERS = TypeAdapter(list[_Peer])


def parse_peers(text: str, *, root: str) -> tuple[dict[str, Any], ...]:
    """Return a JSON list of peers as the API server stores them. Raises InvalidPeersError.

    What is stored is compared with them, so they are without what is empty, selectors excepted.
    """
    try:
        peers = _PEERS.validate_json(text, by_alias=True, by_name=False)
    except ValidationError as error:
        problem, *_ = from_error(error, model=_Peer, root=root)
        raise InvalidPeersError(str(problem)) from error
    return tuple(
        peer.model_dump(mode="json", by_alias=True, exclude_defaults=True) for peer in peers
    )
