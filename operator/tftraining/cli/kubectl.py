"""Runs the user's kubectl, which has the cluster's address, the context and the credentials."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from tftraining.errors import TFTrainingError

_Object = dict[str, Any]

_SECONDS = 60
_NOT_FOUND = "(NotFound)"


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The program, and namespace and context to use; None for those that it has."""

    program: str
    namespace: str | None = None
    context: str | None = None

    @classmethod
    def find(cls, namespace: str | None, context: str | None) -> "Kubectl":
        """Return the kubectl of the PATH. Raises TFTrainingError."""
        program = shutil.which("kubectl")
        if program is None:
            raise TFTrainingError(
                "kubectl is not on the PATH: install it, or name a folder of a local run"
            )
        return cls(program, namespace, context)

    def get(self, kind: str, name: str) -> _Object | None:
        """Return an object, None if it does not exist. Raises TFTrainingError."""
        done = self._run("get", kind, name, "--output=json")
        if done.returncode and _NOT_FOUND in done.stderr:
            return None
        found: _Object = json.loads(_checked(done))
        return found

    def select(self, kind: str, labels: str) -> list[_Object]:
        """Return the objects with some labels. Raises TFTrainingError."""
        done = self._run("get", kind, f"--selector={labels}", "--output=json")
        found: list[_Object] = json.loads(_checked(done))["items"]
        return found

    def create(self, manifest: _Object) -> None:
        """Create an object. Raises TFTrainingError."""
        _checked(self._run("create", "--filename=-", stdin=json.dumps(manifest)))

    def delete(self, kind: str, name: str) -> None:
        """Delete an object without waiting until it is gone. Raises TFTrainingError."""
        _checked(self._run("delete", kind, name, "--wait=false", "--ignore-not-found"))

    def logs(self, pod: str) -> str:
        """Return the last lines of a pod's log, nothing if it has none."""
        return self._run("logs", pod, "--tail=20").stdout

    def forward(self, pod: str, here: int, there: int) -> "subprocess.Popen[bytes]":
        """Start forwarding a loopback port of this computer to a pod."""
        return subprocess.Popen(  # noqa: S603 - the user's own kubectl
            self._command("port-forward", "--address=127.0.0.1", f"pod/{pod}", f"{here}:{there}"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            # Ctrl-C in the terminal must not end it before the pod is deleted.
            start_new_session=True,
        )

    def _run(self, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(  # noqa: S603 - the user's own kubectl
                self._command(*arguments),
                input=stdin,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
                # Ctrl-C in the terminal must not end it when it has created a pod, or deletes it.
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            raise TFTrainingError(f"kubectl {arguments[0]} timed out after {_SECONDS} s") from error

    def _command(self, *arguments: str) -> list[str]:
        where = [f"--context={self.context}"] if self.context else []
        where += [f"--namespace={self.namespace}"] if self.namespace else []
        return [self.program, *where, *arguments]


def _checked(done: "subprocess.CompletedProcess[str]") -> str:
    if done.returncode:
        output = done.stderr.strip() or f"exit code {done.returncode}"
        raise TFTrainingError(f"kubectl: {output.removeprefix('error: ').removeprefix('Error: ')}")
    return done.stdout
