"""Names for values that TensorFlow makes; it ships no types, so each of them is Any."""

from typing import Any, TypeAlias

Callback: TypeAlias = Any
Checkpoint: TypeAlias = Any
Coordinator: TypeAlias = Any
Dataset: TypeAlias = Any
Function: TypeAlias = Any
Graph: TypeAlias = Any
Iterator: TypeAlias = Any
Layer: TypeAlias = Any
Metric: TypeAlias = Any
Model: TypeAlias = Any
Operation: TypeAlias = Any
Optimizer: TypeAlias = Any
RemoteValue: TypeAlias = Any
Strategy: TypeAlias = Any
Tensor: TypeAlias = Any
TensorShape: TypeAlias = Any
TensorSpec: TypeAlias = Any
Variable: TypeAlias = Any
