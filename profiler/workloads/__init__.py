"""What is measured: transformers from presets and configuration files, and users' own code."""

__all__ = [
    "architecture",
    "blocks",
    "check",
    "check_overlap",
    "communication",
    "composites",
    "config_file",
    "hf_config",
    "hf_keys",
    "interface",
    "job",
    "layers",
    "open",
    "overlapping",
    "presets",
    "simple",
    "transformer",
    "user",
]
