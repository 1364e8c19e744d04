"""What `--search` needs besides."""

from importlib.util import find_spec

from energyopt.schemas.errors import RequestError


def check_packages() -> None:
    """Refuse a search where its library is not installed, before anything is measured.

    Raises:
        RequestError: says what to install.
    """
    if find_spec("botorch") is None:
        raise RequestError(
            "--search needs BoTorch (pip install 'energyopt[search]'); without it, --overlap measures every "
            "configuration"
        )
