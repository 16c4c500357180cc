"""A made package `shop` with a bug, and a package index in a folder: pip works for real, without a network."""

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

PROJECT = {
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "backend.py": (
        "import pathlib\n\n\n"
        "def prepare_metadata_for_build_wheel(folder, config_settings=None):\n"
        "    info = pathlib.Path(folder, 'shop-1.0.dist-info')\n"
        "    info.mkdir()\n"
        "    (info / 'METADATA').write_text('Metadata-Version: 2.1\\nName: shop\\nVersion: 1.0\\n')\n"
        "    (info / 'WHEEL').write_text('Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        "    return info.name\n"
    ),
    "PKG-INFO": "Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n",
    "src/shop/__init__.py": (
        "def total(prices):\n    result = 0\n    for p in prices:\n        result -= p\n    return result\n"
    ),
    "src/shop/names.py": "NAME = 'shop'\n",
    "tests/test_shop.py": "from shop.names import NAME\n\n\ndef test_name():\n    assert NAME == 'shop'\n",
}
GOLD = """\
diff --git a/src/shop/__init__.py b/src/shop/__init__.py
--- a/src/shop/__init__.py
+++ b/src/shop/__init__.py
@@ -1,5 +1,5 @@
 def total(prices):
     result = 0
     for p in prices:
-        result -= p
+        result += p
     return result
"""
TEST_PATCH = """\
diff --git a/tests/test_shop.py b/tests/test_shop.py
--- a/tests/test_shop.py
+++ b/tests/test_shop.py
@@ -1,5 +1,10 @@
+from shop import total
 from shop.names import NAME
 
 
+def test_total():
+    assert total([1, 2]) == 3
+
+
 def test_name():
     assert NAME == 'shop'
"""


@dataclass(frozen=True)
class Index:
    """The folder that pip looks into, and a row that is solved by `GOLD`."""

    folder: Path
    row: dict[str, Any]


def sdist(files: dict[str, str], root: str = "shop-1.0") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"{root}/{name}")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


def _wheel(name: str, folder: Path) -> str:
    """An installed pure package as a wheel again; returns the requirement for it."""
    found = metadata.distribution(name)
    stem = f"{name}-{found.version}"
    skip = ("INSTALLER", "REQUESTED", "direct_url.json", "RECORD")
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        lines = []
        for file in found.files or ():
            if ".." in file.parts or "__pycache__" in file.parts or file.name in skip:
                continue
            lines.append(f"{file.as_posix()},,")
            wheel.write(Path(str(file.locate())), file.as_posix())
        wheel.writestr(f"{stem}.dist-info/RECORD", "\n".join([*lines, f"{stem}.dist-info/RECORD,,", ""]))
    return f"{name}=={found.version}"


@pytest.fixture(scope="package")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("index")
    wheels = [_wheel(name, folder) for name in ("pytest", "iniconfig", "packaging", "pluggy", "pygments")]
    data = sdist(PROJECT)
    (folder / "shop-1.0.tar.gz").write_bytes(data)
    row = {
        "instance_id": "pypi__shop-1.0-1",
        "repo": "us/shop",
        "package": "shop",
        "base_version": "1.0",
        "sdist": "shop-1.0.tar.gz",
        "sdist_sha256": hashlib.sha256(data).hexdigest(),
        "setup": wheels[:1],
        "test_cmd": "PYTHONPATH=src python -m pytest -q -p no:cacheprovider tests",
        "problem_statement": "total([1, 2]) is -3",
        "patch": GOLD,
        "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": json.dumps(["tests/test_shop.py::test_total"]),
        "PASS_TO_PASS": ["tests/test_shop.py::test_name"],
        "difficulty": "easy",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder))
        patch.setenv("PIP_CONFIG_FILE", "/dev/null")
        patch.setenv("ORCHARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield Index(folder, row)
