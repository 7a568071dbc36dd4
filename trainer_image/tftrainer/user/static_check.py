"""Checks the source of the task before TensorFlow is imported, so that errors show within a second.

Called by __main__. Only definite mistakes are rejected; what the source alone does not show (names
of a star import, compiled modules) is left to the import in task.py.
"""

import ast
import importlib.util
import sys
from pathlib import Path

from tftrainer.errors import BadConfigurationError

WANTED = {
    "model": "def model(): ... returns a tf.keras model",
    "dataset": 'def dataset(split, context): ... returns a tf.data.Dataset; split is "train" or '
    '"evaluation"',
    "train_step": "def train_step(model, batch): ... returns a dict of metrics",
    "test_step": "def test_step(model, batch): ... returns a dict of metrics",
    "callbacks": "def callbacks(context): ... returns a list of tf.keras.callbacks.Callback",
    "export": "def export(model, path): ... writes the model to the folder path",
}
REQUIRED = ("model", "dataset")
# A file of one of these names would be imported in the place of the package.
_TAKEN = sys.stdlib_module_names | {"keras", "numpy", "tensorflow", "tf_keras", "tftrainer"}


def is_file(task: str) -> bool:
    """Whether --task names a file, not a module."""
    return task.endswith(".py") or "/" in task


def check(task: str) -> None:
    """Raise BadConfigurationError if there is no such task, or one that cannot work."""
    if is_file(task) and Path(task).stem in _TAKEN:
        raise BadConfigurationError(
            f"--task={task}: a file of this name shadows the package {Path(task).stem}; rename it."
        )
    source = Path(task) if is_file(task) else _source(task)
    if source is None:
        return
    try:
        tree = ast.parse(source.read_bytes(), filename=str(source))
    except OSError as error:
        raise BadConfigurationError(f"--task={task} cannot be read: {error.strerror}.") from error
    except SyntaxError as error:
        raise BadConfigurationError(
            f"--task={task} has a syntax error: {error.msg} ({error.filename}, line {error.lineno})"
        ) from error
    names = _top_level_names(tree)
    for name in REQUIRED:
        if name not in names and "*" not in names:
            raise BadConfigurationError(f"{task} has no {name}(); it needs `{WANTED[name]}`.")


def _source(module: str) -> Path | None:
    hint = "A task is a module name on PYTHONPATH, or the path of a .py file."
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError) as error:
        raise BadConfigurationError(f"--task={module}: {error}. {hint}") from error
    except Exception:  # noqa: BLE001 -- of the package that it lies in, which is imported here
        # The import of the task will say where.
        return None
    if spec is None:
        raise BadConfigurationError(f"--task={module}: no such module. {hint}")
    origin = spec.origin
    return Path(origin) if origin is not None and origin.endswith(".py") else None


def _top_level_names(tree: ast.Module) -> set[str]:
    """Names that the module may bind, wherever they stand but in functions and classes."""
    names: set[str] = set()
    queue: list[ast.AST] = list(tree.body)
    while queue:
        match node := queue.pop():
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name for alias in aliases)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case _:
                queue.extend(ast.iter_child_nodes(node))
    return names
