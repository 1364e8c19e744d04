"""What the Kareus artifact measured: the folder of one job, with a log for each partition.

`job` reads the folder's name, `logs` one partition's measurements, `windows` chooses among their windows and
blocks, `extras` reads what runs outside the partitions, `coverage` says what is missing, `rows` makes a profile's
rows, `order` says in which order they run, `plausible` refuses what no GPU can draw, and `reading` is the whole.
"""

__all__ = ["coverage", "extras", "job", "logs", "order", "plausible", "reading", "rows", "windows"]
