"""What users write and read: the resource's models, its rules and the CRD made of them. No I/O."""
