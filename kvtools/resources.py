"""Where the files that kvtools ships beside its code lie on disk."""

from __future__ import annotations

from pathlib import Path

from kvtools.errors import InputError

_PACKAGE = Path(__file__).resolve().parent


def bundled_templates(package: Path = _PACKAGE) -> Path:
    """Return the folder that holds ``chat/``, ``prompts/`` and ``report/`` templates.

    A wheel carries it inside the package (``kvtools/templates``); a checkout, also when it is
    installed as editable, keeps it beside the package (``templates``). ``package`` is the folder of the
    installed package; only tests give another.

    Raises:
        InputError: neither folder exists, so the installation is incomplete.
    """
    inside, beside = package / "templates", package.parent / "templates"
    # A wheel's own copy first: in site-packages a folder "templates" beside the package is somebody else's.
    for folder in (inside, beside):
        if folder.is_dir():
            return folder
    raise InputError(f"the bundled templates are missing from {package}: reinstall kvtools.")
