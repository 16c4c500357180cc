"""docs/operate.md: an image that an engine holds is pinned by its digest."""

import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchard_cli.env.contained.image import Images
from orchard_cli.errors import SandboxError
from pages import DOCS

NAME = "localhost/orchard-docs-pinned"


@pytest.fixture
def pinned(tmp_path: Path) -> Iterator[str]:
    """Its name with its digest."""
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed")
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as tar:
        member = tarfile.TarInfo("said.txt")
        member.size = 6
        tar.addfile(member, io.BytesIO(b"pinned"))
    if subprocess.run(["podman", "import", layer, f"{NAME}:1"], capture_output=True, check=False).returncode:
        pytest.skip("podman cannot hold images here")
    asked = ["podman", "image", "inspect", "--format", "{{.Digest}}", f"{NAME}:1"]
    try:
        digest = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        yield f"{NAME}@{digest}"
    finally:
        subprocess.run(["podman", "rmi", "-f", f"{NAME}:1"], capture_output=True, check=False)


def test_an_image_is_pinned_by_its_digest(pinned: str, tmp_path: Path) -> None:
    images = Images(tmp_path / "images")
    assert (images.find(pinned).root / "said.txt").read_text() == "pinned"
    with pytest.raises(SandboxError, match="no engine of this machine holds"):
        images.find(re.sub("[0-9a-f]{64}", "0" * 64, pinned))
    assert "by its digest: `--image mini=" in (DOCS / "operate.md").read_text()
