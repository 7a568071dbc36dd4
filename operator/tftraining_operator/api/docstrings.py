"""The docstrings of fields, for the descriptions in the CRD. Called by crd.py only.

pydantic can read them as well (use_attribute_docstrings), but does so whenever the models are
imported, which every start of the operator and of `tftj` would pay for.
"""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise
from typing import cast

from pydantic import BaseModel

from tftraining_operator.api.base import model_in


def models(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return a model and those of its fields, and so on, by their names."""
    found = {model.__name__: model}
    for field in model.model_fields.values():
        inner = model_in(field.annotation)
        if inner is not None and inner.__name__ not in found:
            found |= models(inner)
    return found


def of_fields(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of a model's fields, inherited ones included, by their aliases."""
    bases = [each for each in reversed(model.__mro__) if issubclass(each, BaseModel)]
    texts: dict[str, str] = {}
    for base in bases[1:]:
        texts |= _of_class(base)
    fields = model.model_fields.items()
    return {field.alias or name: texts[name] for name, field in fields if name in texts}


@cache
def _of_class(model: type) -> dict[str, str]:
    (tree,) = cast("list[ast.ClassDef]", ast.parse(textwrap.dedent(inspect.getsource(model))).body)
    return {
        before.target.id: inspect.cleandoc(after.value.value)
        for before, after in pairwise(tree.body)
        if isinstance(before, ast.AnnAssign)
        and isinstance(before.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }
