"""Arguments and environment of this process, checked against each other; made by __main__."""

from dataclasses import dataclass

from tftrainer.config.arguments import LOCAL_STEPS, NO_VALIDATION, Arguments, FitInput, Mode
from tftrainer.config.cluster import Role
from tftrainer.config.environment import Environment, Strategy
from tftrainer.context import Context
from tftrainer.errors import BadConfigurationError


@dataclass(frozen=True, slots=True)
class Job:
    """What one process of a job has to do; never changes while it runs.

    Raises BadConfigurationError if the arguments do not suit the environment.
    """

    arguments: Arguments
    environment: Environment

    def __post_init__(self) -> None:
        """Refuse arguments that would have no effect."""
        strategy, mode = self.environment.strategy, self.arguments.mode
        servers = strategy is Strategy.PARAMETER_SERVER
        # An evaluator knows no cluster, and gets the command line of all.
        trains = self.environment.task.role is not Role.EVALUATOR
        if trains and not servers and mode is not Mode.ASYNCHRONOUS:
            raise BadConfigurationError(
                f"--mode={mode} requires the ParameterServer strategy, but the strategy is "
                f"{strategy}: remove --mode, or set strategy: ParameterServer."
            )
        if trains:
            self._refuse_what_is_of_another_mode()
        closure, stall = self.arguments.closure_seconds, self.arguments.stall_seconds
        # Steps on workers are seen one by one, these only when all of a function are made.
        if trains and not servers and closure >= stall:
            raise BadConfigurationError(
                f"--closure-seconds={closure:g} must be less than --stall-seconds={stall:g}: so "
                "long no step is seen, which counts as a stall. Lower the first, or raise the "
                "other."
            )
        if self.arguments.history and servers and mode is not Mode.SYNCHRONOUS:
            raise BadConfigurationError(
                f"--history is not available with --mode={mode}: workers make steps concurrently, "
                "and the chief does not see the loss of a single step. Use --mode=synchronous, or "
                "remove --history."
            )
        # Workers and ps of a job have no checkpoint directory.
        if self.environment.task.role is Role.CHIEF and self.checkpoint_dir is None:
            self._refuse_what_needs_a_directory()
        goal = self.arguments.keep_best
        if self.arguments.validation == NO_VALIDATION and goal and goal.needs_validation:
            raise BadConfigurationError(
                f"--keep-best={goal.metric} requires validation: remove --validation=none."
            )

    def _refuse_what_is_of_another_mode(self) -> None:
        given, mode = self.arguments, self.arguments.mode
        servers = self.environment.strategy is Strategy.PARAMETER_SERVER
        for name, is_given, has_effect, needs in (
            ("local-steps", given.local_steps != LOCAL_STEPS, mode is Mode.LOCAL, "--mode=local"),
            ("fit-input", given.fit_input is not FitInput.CREATOR, mode is Mode.FIT, "--mode=fit"),
            ("partition-bytes", given.partition_bytes, servers, "strategy: ParameterServer"),
        ):
            if is_given and not has_effect:
                raise BadConfigurationError(
                    f"--{name} has an effect with {needs} only: set that, or remove --{name}."
                )

    def _refuse_what_needs_a_directory(self) -> None:
        evaluated = "where the checkpoints are written that are evaluated"
        for name, value, why in (
            ("--history", self.arguments.history, "where history.csv is written"),
            ("--keep-best", self.arguments.keep_best, evaluated),
            ("--validation", self.arguments.validation, evaluated),
            ("--resume-from", self.resume_from, "where what follows that checkpoint is saved"),
        ):
            if value not in (None, False, NO_VALIDATION):
                raise BadConfigurationError(f"{name} requires --checkpoint-dir, {why}.")

    @property
    def checkpoint_dir(self) -> str | None:
        """Where checkpoints are kept; the argument wins over the operator's variable."""
        given = self.arguments.checkpoint_dir or self.environment.checkpoint_dir
        # Objects of a bucket have names, and a//b is another one than a/b.
        return given and (given.rstrip("/") or "/")

    @property
    def resume_from(self) -> str | None:
        """Checkpoints of an earlier training to start from, until this job has its own."""
        return self.arguments.resume_from or self.environment.resume_from

    def context(
        self, *, replicas: int = 1, pipelines: int = 1, pipeline: int = 0, seed: int | None = None
    ) -> Context:
        """Return what the user's functions are told; `seed` is what the data is shuffled with."""
        return Context(
            batch_size=self.arguments.batch_size * replicas,
            seed=self.arguments.seed if seed is None else seed,
            options=self.arguments.options,
            input_pipelines=pipelines,
            input_pipeline=pipeline,
        )
