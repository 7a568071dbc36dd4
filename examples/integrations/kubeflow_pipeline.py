"""A step of a Kubeflow pipeline that trains a TFTrainingJob, and ends as the job does.

    pip install kfp
    python examples/integrations/kubeflow_pipeline.py      # writes train_digits.yaml

docs/guide/integrations.md says how to build the image of the step, and which rights it needs.
"""

from kfp import compiler, dsl


@dsl.component(base_image="registry.example.com/tftraining-client:0.1.0")
def train(name: str, epochs: int) -> str:
    """Train, and return the path of the exported model; fail if the job fails."""
    from tftraining import TFTrainingClient

    arguments = ["--task=tftrainer.examples.mnist", f"--epochs={epochs}"]
    job = {
        "apiVersion": "tftraining.dev/v1alpha1",
        "kind": "TFTrainingJob",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"containers": [{"name": "tensorflow", "args": arguments}]}},
            "worker": {"replicas": 2},
            "ps": {},
            "checkpoint": {"persistentVolumeClaim": {"claimName": "digits"}},
            "runPolicy": {"activeDeadlineSeconds": 86400},
        },
    }
    client = TFTrainingClient()
    client.submit(job)
    finished = client.wait(name)
    return finished.status.model.path


@dsl.pipeline(name="train-digits")
def pipeline(name: str = "digits", epochs: int = 3) -> str:
    """Train; more steps may use the path of the model."""
    return train(name=name, epochs=epochs).output


if __name__ == "__main__":
    compiler.Compiler().compile(pipeline, "train_digits.yaml")
