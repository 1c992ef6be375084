"""Write a wheel of one library."""

import base64
import hashlib
import zipfile
from pathlib import Path


def write_wheel(folder: Path, name: str, version: str, tag: str, files: dict[str, bytes]) -> Path:
    """Write a wheel of these files, by their paths in site-packages; give its path."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    wheel = f"Wheel-Version: 1.0\nGenerator: gpu-kit\nRoot-Is-Purelib: true\nTag: {tag}\n"
    whole = {**files, f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": wheel.encode()}
    path = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for each, data in whole.items():
            archive.writestr(each, data)
        lines = [f"{each},sha256={_digest(data)},{len(data)}" for each, data in whole.items()]
        archive.writestr(f"{info}/RECORD", "\n".join([*lines, f"{info}/RECORD,,", ""]))
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
