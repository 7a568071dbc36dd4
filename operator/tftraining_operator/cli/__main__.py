"""Entry point: `python -m tftraining_operator.cli`."""

from tftraining_operator.cli.app import main

if __name__ == "__main__":
    main()
