"""What this process has to do: the arguments and the environment, and what follows from both."""

from dataclasses import dataclass

from tftrainer.arguments import Arguments
from tftrainer.context import Context
from tftrainer.environment import Environment, Strategy


@dataclass(frozen=True, slots=True)
class Job:
    """One process's share of a job; never changes while it runs."""

    arguments: Arguments
    environment: Environment

    @property
    def checkpoint_dir(self) -> str | None:
        """Where checkpoints are kept; the argument wins over the operator's variable."""
        return self.arguments.checkpoint_dir or self.environment.checkpoint_dir

    def context(self, *, replicas: int = 1, pipelines: int = 1, pipeline: int = 0) -> Context:
        """Return what the user's functions are told."""
        asynchronous = self.environment.strategy is Strategy.PARAMETER_SERVER
        return Context(
            batch_size=self.arguments.batch_size * replicas,
            seed=None if asynchronous else self.arguments.seed,
            options=self.arguments.options,
            input_pipelines=pipelines,
            input_pipeline=pipeline,
        )
