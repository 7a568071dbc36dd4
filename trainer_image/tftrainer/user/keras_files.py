"""Has a thread write .keras files in their format; called by session.

After the first one, Keras writes HDF5 under that name, in each thread but the one that imported it:
what it puts back there is another value than it began with. Training runs in a thread of its own.
"""

# Nothing public says it for a whole thread.
from tf_keras.src.saving import saving_lib


def write_as_such() -> None:
    """Have this thread do so, in callbacks and in the export."""
    saving_lib._SAVING_V3_ENABLED.value = True  # noqa: SLF001
