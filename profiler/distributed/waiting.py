"""Blocked receives between pairs of ranks, to measure what waiting costs.

Two ranks take turns: one asks its peer for a message after so many seconds and blocks in the receive; the peer
sleeps that long and sends it. Then they change places.
"""

import time
from typing import Any


class Peer:
    """This rank's partner; the lower rank of a pair waits first."""

    def __init__(self, rank: int, size: int, group: Any, *, device: Any) -> None:
        """Make a pair of this rank and its neighbour.

        Args:
            rank: this rank.
            size: number of ranks; the last of an odd number has no partner.
            group: process group of all ranks.
            device: torch device that messages live on.
        """
        import torch

        self._partner = rank ^ 1
        self.exists = self._partner < size
        self.waits_first = rank < self._partner
        self._group = group
        self._message = torch.zeros(1, dtype=torch.float64, device=device)

    def receive(self, duration_s: float) -> None:
        """Ask for a message after this time, and block until it is here."""
        self._message.fill_(duration_s)
        self._send()
        self._receive()

    def serve(self) -> None:
        """Send the partner the message that it waits for, when it wants it."""
        self._receive()
        time.sleep(self._message.item())
        self._send()

    def _send(self) -> None:
        import torch.distributed as dist

        dist.send(self._message, self._partner, group=self._group)
        self._settle()

    def _receive(self) -> None:
        import torch.distributed as dist

        dist.recv(self._message, self._partner, group=self._group)
        self._settle()

    def _settle(self) -> None:
        if self._message.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self._message.device)
