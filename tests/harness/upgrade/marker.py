"""A wheel of a version that it was asked for, and nothing else: made by hand, as only its bytes matter."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

NAME = "effectively-once-upgrade"
_MODULE = "effectively_once_upgrade"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def make_wheel(folder: Path, number: int, run: str) -> Path:
    """Write the wheel of version 0.0.`number` of a run; where it is.

    The same number of another run is another wheel: an image of an earlier run would hide a build that is missing.
    """
    version = f"0.0.{number}+{run.replace('-', '.')}"
    about = f"{_MODULE}-{version}.dist-info"
    files = {
        f"{_MODULE}.py": f'"""Says of which version the image is."""\n\nVERSION = "{version}"\n',
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: effectively-once\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    listed = [f"{name},sha256={_hash(text)},{len(text.encode())}" for name, text in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*listed, f"{about}/RECORD,,"]) + "\n"
    path = folder / f"{_MODULE}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text)
    return path


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
