"""The command `knet` as `python -m knet`."""

from knet.cli import main

if __name__ == "__main__":
    main()
