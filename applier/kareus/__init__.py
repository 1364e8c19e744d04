"""Plans in the form of the Kareus artifact: a pair of Python lists, of clocks and of communication settings.

Kareus reads its files as code; here they are read as data. `layouts` names the partitions, `boards` says how many
SMs a GPU has, `configs` reads the
text of one partition's setting, `plans` reads a pair, `export` writes one, and `files` says where a pair stands.
"""

__all__ = ["boards", "configs", "export", "files", "layouts", "plans"]
