"""Serves an exported model as TensorFlow Serving's REST API does: to try a model without a server.

    python -m tftrainer.examples.serve CHECKPOINT_DIR/export --name=digits

serves the newest version in that folder; requests name a model and hold `instances` (a list of
examples) or `inputs` (a batch for each input), as docs/guide/export.md shows, and `signature_name`
for another signature than serving_default. It answers one request at a time, from this computer
only. In production use TensorFlow Serving or KServe.
"""

import argparse
import json
import logging
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import tensorflow as tf

_LOG = logging.getLogger(__name__)


class ServedModel:
    """One version of a model, by its signatures."""

    def __init__(self, folder: Path) -> None:
        """Load the version with the highest number; raises ValueError if there is none."""
        versions = [int(each.name) for each in folder.iterdir() if each.name.isdecimal()]
        if not versions:
            raise ValueError(f"{folder} holds no version of a model, such as {folder}/810")
        self.version = max(versions)
        # Kept: with it would go its variables.
        self._loaded = tf.saved_model.load(str(folder / str(self.version)))

    def predict(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of TensorFlow Serving's; raises ValueError for one that is none."""
        known = self._loaded.signatures
        match request:
            case {"signature_name": name}:
                pass
            case _:
                name = "serving_default"
        if name not in known:
            raise ValueError(f"there is no signature {name!r}, but {sorted(known)}")
        return _Signature(known[name]).predict(request)


class _Signature:
    """One signature of a model."""

    def __init__(self, function: Any) -> None:  # noqa: ANN401 -- of TensorFlow
        self._serve = function
        self._inputs: dict[str, Any] = function.structured_input_signature[1]

    def predict(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request for this signature."""
        if "instances" in request:
            outputs = self._predict(self._columns(request["instances"]))
            return {"predictions": _rows(outputs)}
        if "inputs" in request:
            given = request["inputs"]
            outputs = self._predict(given if isinstance(given, dict) else self._single(given))
            return {"outputs": outputs if len(outputs) > 1 else next(iter(outputs.values()))}
        raise ValueError('a request has "instances" or "inputs"')

    def _predict(self, columns: dict[str, Any]) -> dict[str, Any]:
        if set(columns) != set(self._inputs):
            raise ValueError(f"inputs are {sorted(columns)}, the model's {sorted(self._inputs)}")
        tensors = {n: tf.constant(v, self._inputs[n].dtype) for n, v in columns.items()}
        return {name: value.numpy().tolist() for name, value in self._serve(**tensors).items()}

    def _columns(self, instances: list[Any]) -> dict[str, Any]:
        if not isinstance(instances, list) or not instances:
            raise ValueError('"instances" is a list of examples')
        if not isinstance(instances[0], dict):
            return self._single(instances)
        return {name: [each[name] for each in instances] for name in instances[0]}

    def _single(self, values: list[Any]) -> dict[str, Any]:
        if len(self._inputs) > 1:
            raise ValueError(f"name the inputs: {sorted(self._inputs)}")
        return dict.fromkeys(self._inputs, values)


def _rows(outputs: dict[str, Any]) -> list[Any]:
    if len(outputs) == 1:
        return list(next(iter(outputs.values())))
    return [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]


def server(folder: Path, name: str, port: int) -> HTTPServer:
    """Make the server of one model; it listens on loopback."""
    model = ServedModel(folder)
    path = f"/v1/models/{name}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer whether the model is there."""
            if self.path != path:
                return self._answer(404, {"error": f"no such model; there is {path}"})
            status = {"version": str(model.version), "state": "AVAILABLE"}
            return self._answer(200, {"model_version_status": [status]})

        def do_POST(self) -> None:
            """Predict."""
            if self.path != f"{path}:predict":
                return self._answer(404, {"error": f"no such method; there is {path}:predict"})
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                answer = model.predict(json.loads(body))
            except (ValueError, TypeError, KeyError, tf.errors.InvalidArgumentError) as error:
                return self._answer(400, {"error": f"{type(error).__name__}: {error}"})
            return self._answer(200, answer)

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            # Texts are bytes in TensorFlow.
            body = json.dumps(document, indent=4, default=bytes.decode).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return HTTPServer(("127.0.0.1", port), Handler)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tftrainer.examples.serve")
    parser.add_argument("folder", type=Path, help="the folder export of a checkpoint directory")
    parser.add_argument("--name", default="model", help="name of the model in requests")
    parser.add_argument("--port", type=int, default=8501, help="port to listen on (default 8501)")
    given = parser.parse_args()
    try:
        serving = server(given.folder, given.name, given.port)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    _LOG.info("serving %s at http://127.0.0.1:%d/v1/models/%s", given.name, given.port, given.name)
    serving.serve_forever()


if __name__ == "__main__":
    main()
