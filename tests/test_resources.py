"""Where the bundled templates lie: in a wheel, in a checkout, nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvtools.errors import InputError
from kvtools.resources import bundled_templates

if TYPE_CHECKING:
    from pathlib import Path


def test_the_installed_package_has_every_kind_of_chat_template() -> None:
    names = {file.name for file in (bundled_templates() / "chat").glob("*.j2")}
    assert {"deepseek.j2", "deepseek-v4.j2", "chatml.j2", "llama3.j2", "plain.j2"} <= names


def test_a_wheel_carries_its_templates_inside(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "kvtools"
    (package / "templates").mkdir(parents=True)
    # Somebody else's folder: a wheel must not take it for its own.
    (tmp_path / "site-packages" / "templates").mkdir()
    assert bundled_templates(package) == package / "templates"


def test_a_checkout_keeps_them_beside_the_package(tmp_path: Path) -> None:
    (tmp_path / "kvtools").mkdir()
    (tmp_path / "templates").mkdir()
    assert bundled_templates(tmp_path / "kvtools") == tmp_path / "templates"


def test_an_incomplete_installation_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"templates are missing from .*: reinstall kvtools\.$"):
        bundled_templates(tmp_path / "kvtools")
