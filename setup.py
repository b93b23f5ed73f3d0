"""pip install --no-build-isolation . builds the Python package with CMake; docs/install.md says what it needs."""
import pathlib
import re
import sys

from skbuild import setup

version = re.search(r"^project\(winnow VERSION ([\d.]+)", pathlib.Path("CMakeLists.txt").read_text(), re.M)[1]
setup(
    name="winnow",
    version=version,
    description="Federated learning that survives noisy clients",
    long_description=pathlib.Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=["winnow"],
    package_dir={"winnow": "python/winnow"},
    package_data={"winnow": ["*.pyi", "py.typed"]},
    python_requires=">=3.9",
    install_requires=["torch", "numpy"],
    extras_require={"frames": ["pandas"]},
    cmake_args=["-DWINNOW_PYTHON=ON", "-DWINNOW_MPI=OFF", "-DWINNOW_TESTS=OFF", "-DWINNOW_BENCH=OFF",
                "-DWINNOW_PYTHON_FOLDER=python", f"-DPython3_EXECUTABLE={sys.executable}"],
)
