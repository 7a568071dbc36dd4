"""Runs one small job to its end, for `helm test`: the exit code is 0 if it succeeded.

Runs in the operator's image. The arguments are the job's manifest as JSON and a time limit (s).
"""

import json
import sys
import time

from kubernetes import client, config

GROUP, VERSION, PLURAL = "tftraining.dev", "v1alpha1", "tftrainingjobs"


def main(manifest: str, seconds: str) -> int:
    """Create the job, print what its status says, delete it."""
    try:
        config.load_incluster_config()
    except config.ConfigException:
        config.load_kube_config()
    jobs = client.CustomObjectsApi()
    job = json.loads(manifest)
    name = job["metadata"]["name"]
    where = {"version": VERSION, "namespace": job["metadata"]["namespace"], "plural": PLURAL}
    jobs.create_namespaced_custom_object(GROUP, **where, body=job)
    end, said = time.monotonic() + float(seconds), ""
    try:
        while time.monotonic() < end:
            found = jobs.get_namespaced_custom_object(GROUP, **where, name=name)
            status = found.get("status") or {}
            line = f"{status.get('state', 'New')}: {status.get('message', '')}"
            if line != said:
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()
            said = line
            if status.get("completionTime"):
                return int(status["state"] != "Succeeded")
            time.sleep(1)
        sys.stdout.write(f"not finished within {seconds} s\n")
        return 1
    finally:
        jobs.delete_namespaced_custom_object(GROUP, **where, name=name)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
