"""Text for a terminal: names and cells of a table are not trusted, and control characters could change the display."""

from typing import BinaryIO

LINE = frozenset("\t\n")  # what a table on a terminal may contain


def printable(text: str, allowed: frozenset[str] = frozenset()) -> str:
    r"""Return a text with all characters that are not printable escaped, except those in `allowed`.

    Examples
    --------
    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    shown = (letter if letter.isprintable() or letter in allowed else repr(letter)[1:-1] for letter in text)
    return "".join(shown)


class TerminalWriter:
    """A binary stream that escapes control characters, for a table that is written to a terminal."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def write(self, content: bytes) -> int:
        """Write lines of UTF-8 text."""
        return self.stream.write(printable(content.decode("utf-8", "replace"), LINE).encode())
