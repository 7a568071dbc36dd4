"""Publishes both images and the chart to a registry on loopback, signs, lists and verifies them.

`make supply-chain` does offline, with a key of its own, what .github/workflows/release.yaml does
with Sigstore's certificates: the same programs in the same versions, and tools/release.py for the
chart. It ends with what verification is for: an image that was changed after it was signed is
refused.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools import release
from tools.cluster import engine as engines
from tools.cluster.binaries import binary
from tools.cluster.cluster import NAME, alone
from tools.cluster.engine import Engine
from tools.cluster.images import RECIPES, build_images
from tools.cluster.shell import Argument, ClusterError, Say, bound, run
from tools.pages import fill
from tools.ports import free_port
from tools.release import digest_in
from tools.waiting import eventually

PROGRAMS = ("registry", "syft", "cosign", "helm")
SECTION = "verified here"

# A configuration of cosign that names no transparency log.
_NO_LOG = "signing.json"
_OFFLINE = ("--key", "cosign.key", "--signing-config", _NO_LOG)
_BY_KEY = ("--key", "cosign.pub", "--insecure-ignore-tlog", "--allow-http-registry")
_SPDX = ("--type", "spdxjson")
_TAG = "released"


class SupplyChainError(Exception):
    """Something was accepted that must be refused, or says what is not so."""


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry on loopback, and the folder with its key in which commands run."""

    address: str
    folder: Path
    programs: dict[str, Path]
    shown: list[str] = field(default_factory=list)
    """Commands with their output, for the page."""

    def run(self, program: str, *arguments: Argument, show: bool = False) -> str:
        """Run a program in the folder and return its output. Raises ClusterError."""
        environment = {
            "HOME": str(self.folder),
            "COSIGN_PASSWORD": "",
            "SYFT_CHECK_FOR_APP_UPDATE": "false",
        }
        said = run([self.programs[program], *arguments], env=environment, cwd=self.folder)
        if show:
            self._show(program, arguments, said)
        return said

    def refused(self, program: str, *arguments: Argument) -> str:
        """Return what a program says that must fail. Raises SupplyChainError if it does not."""
        try:
            self.run(program, *arguments)
        except ClusterError as error:
            self._show(program, arguments, str(error).partition("\n")[2])
            return str(error)
        raise SupplyChainError(f"accepted: {program} {' '.join(map(str, arguments))}")

    def _show(self, program: str, arguments: Sequence[Argument], said: str) -> None:
        # Without a network, cosign regrets each time that it could not ask Sigstore's for news.
        lines = [line.rstrip() for line in said.splitlines() if "TUF repository" not in line]
        command = " ".join(map(str, (program, *arguments)))
        self.shown.append("\n".join([f"$ {command}", *lines]).strip())

    def push(self, engine: Engine, image: str, name: str) -> str:
        """Push an image of the engine; return its digest."""
        target = f"{self.address}/{name}:{_TAG}"
        engine.docker("tag", image, target)
        try:
            return digest_in(engine.docker("push", target))
        finally:
            engine.docker("rmi", target)


@contextmanager
def registry(say: Say) -> Iterator[Registry]:
    """Run an empty registry on loopback. Raises ClusterError."""
    programs = {name: binary(name, say) for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as name:
        folder, address = Path(name), f"127.0.0.1:{free_port()}"
        settings = {
            "version": 0.1,
            "log": {"accesslog": {"disabled": True}, "level": "warn"},
            "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
            "http": {"addr": address},
        }
        (folder / "registry.yaml").write_text(json.dumps(settings))
        command = bound([programs["registry"], "serve", folder / "registry.yaml"])
        environment = {**os.environ, "OTEL_TRACES_EXPORTER": "none"}
        with (
            (folder / "registry.log").open("w") as log,
            subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
        ):
            try:
                eventually(lambda: _answers(address), f"a registry at {address}")
                yield Registry(address, folder, programs)
            finally:
                process.terminate()


def _answers(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def publish_image(
    at: Registry, engine: Engine, image: str, name: str, *, show: bool = False
) -> str:
    """Push an image, list what is in it, sign both and verify that; return its digest.

    Raises ClusterError, ReleaseError, SupplyChainError.
    """
    digest = at.push(engine, image, name)
    reference = f"{at.address}/{name}@{digest}"
    sbom = f"{name}.spdx.json"
    at.run(
        *("syft", "scan", f"registry:{reference}", "--output", f"spdx-json={sbom}", "--quiet"),
        show=show,
    )
    if not json.loads((at.folder / sbom).read_text())["packages"]:
        raise SupplyChainError(f"{reference}: the SBOM lists nothing")
    at.run("cosign", "sign", "--yes", *_OFFLINE, "--allow-http-registry", reference, show=show)
    # Before there is an attestation: cosign takes that for a signature as well.
    verify(at, reference, digest)
    at.run(
        *("cosign", "attest", "--yes", *_OFFLINE, "--allow-http-registry"),
        *(*_SPDX, "--predicate", sbom, reference),
        show=show,
    )
    at.run("cosign", "verify-attestation", *_SPDX, *_BY_KEY, reference)
    return digest


def verify(at: Registry, reference: str, digest: str) -> None:
    """Verify a signature, and that it is of this digest. Raises ClusterError, SupplyChainError."""
    signed = json.loads(_document(at.run("cosign", "verify", *_BY_KEY, reference)))
    found = {each["critical"]["image"]["docker-manifest-digest"] for each in signed}
    if found != {digest}:
        raise SupplyChainError(f"{reference}: signed is {found}")


def refuse_what_was_changed(at: Registry, engine: Engine, name: str, digest: str) -> None:
    """Give the tag of a signed image to one with another file in it, and see that refused.

    Raises SupplyChainError if it is accepted.
    """
    signed, tag = f"{at.address}/{name}@{digest}", f"{at.address}/{name}:{_TAG}"
    engine.docker("pull", signed)
    container = engine.docker("create", signed).strip()
    try:
        engine.docker("cp", __file__, f"{container}:/opt/changed.py")
        engine.docker("commit", container, "tftraining/changed:latest")
    finally:
        engine.docker("rm", container)
        engine.docker("rmi", signed)
    try:
        changed = at.push(engine, "tftraining/changed:latest", name)
    finally:
        engine.docker("rmi", "tftraining/changed:latest")
    if changed == digest:
        raise SupplyChainError(f"{name} is the same after it was changed")
    at.refused("cosign", "verify", *_BY_KEY, tag)
    at.refused("cosign", "verify-attestation", *_SPDX, *_BY_KEY, tag)
    # What was signed is still there, by its digest.
    at.run("cosign", "verify", *_BY_KEY, signed, show=True)


def publish_chart(at: Registry, images: dict[str, str]) -> str:
    """Push the chart with these images, sign and verify it, and render it; return its digest.

    Raises ClusterError, ReleaseError, SupplyChainError.
    """
    out = at.folder / "out"
    out.mkdir()
    package = release.package(at.address, images["operator"], images["trainer"], out)
    digest = release.push(package, f"{at.address}/charts", plain_http=True)
    chart = f"{at.address}/charts/{release.CHART.name}@{digest}"
    at.run("cosign", "sign", "--yes", *_OFFLINE, "--allow-http-registry", chart)
    verify(at, chart, digest)
    rendered = at.run("helm", "template", "tftraining", f"oci://{chart}", "--plain-http")
    for name, image in images.items():
        if f"{at.address}/{name}@{image}" not in rendered:
            raise SupplyChainError(f"the chart from the registry does not name {name}@{image}")
    at.shown.append(f"$ helm template tftraining oci://{chart} --plain-http | grep {at.address}/")
    at.shown[-1] += "".join(
        f"\n{line.rstrip()}" for line in rendered.splitlines() if f"{at.address}/" in line
    )
    return digest


def _document(text: str) -> str:
    """Return the line of cosign's output that is JSON; the others say what it checked."""
    return next(line for line in reversed(text.splitlines()) if line.startswith("["))


def run_all(say: Say) -> list[str]:
    """Publish, verify and refuse; return the commands with their output.

    Raises ClusterError, ReleaseError, SupplyChainError.
    """
    engine = engines.engine(say)
    images = dict(zip(RECIPES, build_images(*RECIPES, say=say), strict=True))
    with registry(say) as at:
        at.run("cosign", "generate-key-pair")
        at.run("cosign", "signing-config", "create", "--out", _NO_LOG)
        digests = {}
        for name, image in images.items():
            digests[name] = publish_image(at, engine, image, name, show=name == "operator")
            say(f"{name}: pushed, listed, signed and verified, {digests[name]}")
        chart = publish_chart(at, digests)
        say(f"chart: pushed, signed, verified and rendered from the registry, {chart}")
        refuse_what_was_changed(at, engine, "operator", digests["operator"])
        say("operator: refused after it was changed")
        return at.shown


def main() -> int:
    """Do it all; return the exit code."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, help="write the commands and their output here")
    page = parser.parse_args().page
    try:
        # Who uses the cluster has images of these names, and may stop the engine with it.
        with alone(NAME, print):
            shown = run_all(print)
    except (ClusterError, release.ReleaseError, SupplyChainError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    if page is not None:
        text = "\n\n".join(shown)
        fill(page, SECTION, f"```\n{text}\n```")
    return 0


if __name__ == "__main__":
    sys.exit(main())
