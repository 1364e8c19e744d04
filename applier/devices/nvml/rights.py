"""Whether this process may change a GPU's state at all, before anything is changed."""

import os
from pathlib import Path

CAP_SYS_ADMIN = 21  # bit of the effective set, linux/capability.h


def may_administer(status: Path = Path("/proc/self/status")) -> bool:
    """Whether the kernel counts this process as an administrator, as NVML's setters ask for.

    Root in a container does not do without CAP_SYS_ADMIN; another user with it does. The driver has the last
    word: a user namespace can grant the capability in a form that it does not honour.
    """
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return os.geteuid() == 0
    effective = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(effective, 16) >> CAP_SYS_ADMIN & 1)
