"""Fetch the public files of the paper's real data: `python -m benchmarks.download FOLDER [cancer face rcv]`."""

import argparse
import sys
from pathlib import Path

from benchmarks.public_files import PUBLIC_FILES, download, file_hash


def main(arguments: list[str] | None = None) -> int:
    """Download, and return the exit code."""
    parser = argparse.ArgumentParser(prog="download", description="Fetch the public files of the paper's real data.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(PUBLIC_FILES), help=f"of {', '.join(PUBLIC_FILES)}")
    options = parser.parse_args(arguments)
    try:
        for name in options.names:
            for path in download(name, options.folder):
                print(f"{path}  sha256 {file_hash(path)}")
    except (OSError, ValueError) as error:
        print(f"download: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
