"""The memory of this process: the one reader that all measurements share."""

import resource
from pathlib import Path

PROCESS = Path("/proc/self")  # Linux; elsewhere getrusage is used, whose maximum includes the parent's before the fork


def peak_mb() -> float:
    """Return the maximum memory that this process has used so far, in MB."""
    if PROCESS.exists():
        status = (PROCESS / "status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def reset_peak() -> float:
    """Reset the maximum to the present memory, if the system can (Linux), and return the maximum, in MB."""
    if PROCESS.exists():
        (PROCESS / "clear_refs").write_text("5")
    return peak_mb()
