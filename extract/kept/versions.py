"""What entries hang on beside what was asked: the sources that made them, and the versions of what these call."""

from __future__ import annotations

import functools
import hashlib
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LOADED = time.time()


def package_sources() -> tuple[str, ...]:
    """All of the package: its modules and the folders that are packages of its own, by name."""
    return tuple(sorted(p.name for p in ROOT.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()))


@functools.cache
def made_by(sources: tuple[str, ...], packages: tuple[str, ...]) -> str | None:
    """A digest of sources of the package and of versions of others; ``None`` if there are no sources, or newer ones than this process
    runs."""
    digest = hashlib.sha256()
    files = [p for s in sources for p in ([ROOT / s] if s.endswith(".py") else _files(ROOT / s))]
    try:
        for path in files:
            if path.stat().st_mtime > _LOADED:
                return None
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
        for package in packages:
            digest.update(f"{package} {version(package)}\0".encode())
    except (OSError, PackageNotFoundError):
        return None
    return digest.hexdigest()


def _files(folder: Path) -> list[Path]:
    """What a package reads of its own: modules, the headers of kernels in C, devices."""
    return sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".h", ".toml"))
