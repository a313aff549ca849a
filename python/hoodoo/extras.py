"""Packages that hoodoo needs for some features only, and how to install them."""

from __future__ import annotations

import importlib

from hoodoo.exceptions import MissingDependencyError

__all__ = ["import_extra"]


def import_extra(module: str, extra: str, feature: str) -> None:
    """Import an optional package, or say how to install it.

    Args:
        module: The module to import, such as `matplotlib`.
        extra: The extra of hoodoo that installs it, such as `plot`.
        feature: What needs it, for the message.

    Raises:
        MissingDependencyError: The package is not installed.

    Examples:
        >>> import_extra("no_such_package", "plot", "a PNG")
        Traceback (most recent call last):
        ...
        hoodoo.exceptions.MissingDependencyError: a PNG needs no_such_package: pip install 'hoodoo[plot]'
    """
    try:
        importlib.import_module(module)
    except ImportError as error:
        message = f"{feature} needs {module.split('.', 1)[0]}: pip install 'hoodoo[{extra}]'"
        raise MissingDependencyError(message) from error
