"""Imports the user's module and checks what its functions take and return.

Called by the training loops and the evaluator. Does not import TensorFlow: what the user returned
is recognized by the module of its class.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tftrainer import tf_types
from tftrainer.context import Context
from tftrainer.errors import BadConfigurationError, OutageError, TrainerError
from tftrainer.runtime.exception_text import headline
from tftrainer.runtime.outages import is_outage
from tftrainer.user.static_check import REQUIRED, WANTED, is_file

# How many parameters each function may have, at least and at most.
_PARAMETERS = {
    "model": (0, 1),
    "dataset": (2, 2),
    "train_step": (2, 2),
    "test_step": (2, 2),
    "callbacks": (0, 1),
    "export": (2, 2),
}
_USE_TF_KERAS = (
    "Instead of `import keras`, write `import tensorflow as tf` and use tf.keras (or `import "
    "tf_keras`)."
)


@dataclass(frozen=True, slots=True)
class UserTask:
    """A loaded module that has the functions wanted."""

    name: str
    module: ModuleType

    def model(self, context: Context) -> tf_types.Model:
        """Call the user's function and check that a tf_keras model comes back."""
        model = self._call("model", *_if_taken(self.module.model, context))
        if _is_from(model, "tf_keras") and hasattr(model, "train_step"):
            return model
        if _is_from(model, "keras"):
            raise BadConfigurationError(
                f"model() of {self.name} returned a Keras 3 model ({kind(model)}). Keras 3 cannot "
                "train under ParameterServer or MultiWorkerMirrored, so the trainer takes "
                f"tf_keras. {_USE_TF_KERAS}"
            )
        raise BadConfigurationError(
            f"model() of {self.name} returned {kind(model)}; it must return a tf.keras model, "
            f"for example tf.keras.Sequential([...]).{_uncalled(model)}"
        )

    def dataset(self, split: str, context: Context) -> tf_types.Dataset:
        """Call the user's dataset and check that batches of (features, labels) come back."""
        dataset = self._call("dataset", split, context)
        if not _is_from(dataset, "tensorflow") or not hasattr(dataset, "element_spec"):
            raise BadConfigurationError(
                f'dataset("{split}", context) of {self.name} returned {kind(dataset)}; it must '
                "return a tf.data.Dataset, for example tf.data.Dataset.from_tensor_slices("
                "(features, labels)).batch(context.batch_size)."
            )
        spec = dataset.element_spec
        if not isinstance(spec, tuple) or len(spec) not in (2, 3):
            raise BadConfigurationError(
                f'dataset("{split}", context) of {self.name} has elements of {spec}; an element '
                "must be a tuple (features, labels), or (features, labels, weights)."
            )
        return dataset

    @property
    def train_step(self) -> tf_types.Function:
        """Return the module's function that makes a step, or None."""
        return self.optional("train_step")

    @property
    def test_step(self) -> tf_types.Function:
        """Return the module's function that evaluates one batch, or None."""
        return self.optional("test_step")

    @property
    def export(self) -> tf_types.Function:
        """Return the module's function that writes the trained model, or None."""
        return self.optional("export")

    def callbacks(self, context: Context) -> list[tf_types.Callback]:
        """Call the module's callbacks, if it has them, and check that they are tf.keras's."""
        if self.optional("callbacks") is None:
            return []
        made = self._call("callbacks", *_if_taken(self.module.callbacks, context))
        if not isinstance(made, list | tuple):
            raise BadConfigurationError(
                f"callbacks(context) of {self.name} returned {kind(made)}; it must return a list "
                "of tf.keras.callbacks.Callback, for example "
                '[tf.keras.callbacks.EarlyStopping("loss")].'
            )
        for each in made:
            if not _is_from(each, "tf_keras") or not hasattr(each, "on_epoch_end"):
                raise BadConfigurationError(
                    f"callbacks(context) of {self.name} returned a list with {kind(each)} in it; "
                    "each must be a tf.keras.callbacks.Callback."
                    f"{_uncalled(each)}{_of_keras_3(each)}"
                )
        return list(made)

    def optional(self, name: str) -> tf_types.Function:
        """Return what the module has by this name, such as its `loss`, or None."""
        return getattr(self.module, name, None)

    def where(self, error: BaseException) -> str:
        """Return the line of the user's file that an error came from, as ` (file, line 3)`."""
        return _where(error, self.module)

    def _call(self, name: str, *arguments: object) -> tf_types.Function:
        try:
            return getattr(self.module, name)(*arguments)
        except BadConfigurationError:
            raise
        except Exception as error:
            raise _refused(error)(
                f"{name}({', '.join(_argument(a) for a in arguments)}) of {self.name} raised "
                f"{headline(error)}{self.where(error)}"
            ) from error


def load(name: str) -> UserTask:
    """Import the module and check that its functions are there."""
    try:
        module = _import_file(Path(name)) if is_file(name) else importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _refused(error)(
            f"--task={name} cannot be imported: {type(error).__name__}: {error}{_where(error)}"
            f"{_remedy(error)}"
        ) from error
    for function, (least, most) in _PARAMETERS.items():
        if function in REQUIRED or getattr(module, function, None) is not None:
            _check_function(name, module, function, least, most)
    return UserTask(name=name, module=module)


def _remedy(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return '. A task is imported: call what ends the process under `if __name__ == "__main__":`'
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package = error.name.partition(".")[0]
    return f". {package} is neither in the image nor beside the task: use an image that has it"


def kind(value: object) -> str:
    """Name what a value is, for an error: `None`, `list`, `tf_keras.src.layers.Dense`."""
    if value is None:
        return "None"
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _refused(error: BaseException) -> type[TrainerError]:
    """Return what an error of the user's code ends with: for good, unless something was away."""
    return OutageError if is_outage(error) else BadConfigurationError


def _check_function(name: str, module: ModuleType, function: str, least: int, most: int) -> None:
    value = getattr(module, function, None)
    if value is None:
        raise BadConfigurationError(f"{name} has no {function}(); it needs `{WANTED[function]}`.")
    if not callable(value):
        raise BadConfigurationError(
            f"{function} of {name} is {kind(value)}; it must be a function: `{WANTED[function]}`."
        )
    parameters = inspect.signature(value).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind not in _VARIABLE]
    if len(required) > most or (len(parameters) < least and not _has_variable(parameters)):
        raise BadConfigurationError(
            f"{function}() of {name} takes {_count(len(parameters))}; it must be "
            f"`{WANTED[function]}`."
        )


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _has_variable(parameters: Iterable[inspect.Parameter]) -> bool:
    return any(parameter.kind in _VARIABLE for parameter in parameters)


def _count(parameters: int) -> str:
    return f"{parameters} parameter{'' if parameters == 1 else 's'}"


def _if_taken(function: Callable[..., object], context: Context) -> list[Context]:
    return [context] if inspect.signature(function).parameters else []


def _import_file(path: Path) -> ModuleType:
    # Its neighbours can be imported, as with `python file.py`; not where a link leads to, since the
    # files of a ConfigMap are links into a folder that goes when the ConfigMap changes.
    sys.path.insert(0, str(path.absolute().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _is_from(value: object, package: str) -> bool:
    return any(base.__module__.partition(".")[0] == package for base in type(value).__mro__)


def _uncalled(value: object) -> str:
    return f" Call it: {value.__name__}(...)." if isinstance(value, type) else ""


def _of_keras_3(value: object) -> str:
    return f" This one is of Keras 3. {_USE_TF_KERAS}" if _is_from(value, "keras") else ""


def _argument(value: object) -> str:
    return "context" if isinstance(value, Context) else repr(value)


def _where(error: BaseException, module: ModuleType | None = None) -> str:
    """Find the place in the user's file, which a traceback buries among TensorFlow's."""
    wanted = getattr(module, "__file__", None)
    trace, places = error.__traceback__, []
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        own = filename == wanted if wanted else "tftrainer/user/task.py" not in filename
        if own and not filename.startswith("<frozen"):
            places.append(f" ({filename}, line {trace.tb_lineno})")
        trace = trace.tb_next
    return places[-1] if places else ""
