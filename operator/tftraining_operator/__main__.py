"""Entry point: `python -m tftraining_operator`."""

import asyncio
import logging
import sys
from functools import partial

import kopf

from tftraining_operator.controller.batching import BatchingSelector
from tftraining_operator.controller.logs import add_job_fields
from tftraining_operator.controller.main import operate
from tftraining_operator.controller.settings import Settings, SettingsError


def main() -> int:
    """Run the operator; return the exit code."""
    try:
        settings = Settings.from_environment()
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 64
    kopf.configure(
        verbose=settings.log_level == "debug",
        log_format=kopf.LogFormat.JSON if settings.log_format == "json" else kopf.LogFormat.FULL,
    )
    add_job_fields()
    level = getattr(logging, settings.log_level.upper())
    logging.getLogger("tftraining_operator").setLevel(level)
    # A line for each event or probe would be a fifth of the operator's CPU.
    for chatty in ("kopf", "aiohttp.access"):
        logging.getLogger(chatty).setLevel(max(level, logging.WARNING))
    selector = BatchingSelector()
    try:
        with asyncio.Runner(loop_factory=partial(asyncio.SelectorEventLoop, selector)) as runner:
            runner.run(operate(settings, selector))
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 64
    return 0


if __name__ == "__main__":
    sys.exit(main())
