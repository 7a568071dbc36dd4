"""The thin shell: triggers, queue, store, and the only modules that touch kopf or Kubernetes."""
