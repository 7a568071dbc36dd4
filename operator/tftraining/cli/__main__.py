"""Entry point: `python -m tftraining.cli`."""

from tftraining.cli.app import main

if __name__ == "__main__":
    main()
