"""The Objective-C++ host is compiled and linked for arm64 macOS, and the headers it is compiled with agree with Apple's."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest
from metal_sim import build, header_check, macos
from metal_sim.example_host import SOURCE
from native_tools import missing

ROOT = Path(__file__).resolve().parent.parent
PRODUCTION = sorted((ROOT / "csrc" / "device" / "metal").glob("*.mm"))


def require_zig() -> None:
    if importlib.util.find_spec("ziglang") is None:
        missing("ziglang is not installed (pip install ziglang)")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sources", [[SOURCE], PRODUCTION], ids=["example", "production"])
def test_compiles_and_links_for_macos(sources):
    require_zig()
    assert sources
    library = macos.library(sources, [f"-I{ROOT / 'csrc'}"])
    assert not macos.unexpected(library)


def test_a_function_that_the_system_lacks_is_noticed(tmp_path):
    require_zig()
    path = tmp_path / "host.mm"
    path.write_text('#import <Metal/Metal.h>\nextern "C" id MTLMakeCoffee(void);\nid coffee() { return MTLMakeCoffee(); }\n')
    assert macos.unexpected(macos.library([path])) == ["_MTLMakeCoffee"]


def test_a_call_that_is_newer_than_macos_14_needs_a_guard(tmp_path):
    require_zig()
    path = tmp_path / "host.mm"
    path.write_text(
        "#import <Metal/Metal.h>\nvoid add(id<MTLCommandQueue> queue, id<MTLResidencySet> set)"
        " { [queue addResidencySet:set]; }\n"
    )
    with pytest.raises(build.CompileError, match="macOS 15"):
        macos.library([path])


@pytest.fixture(scope="module")
def apple(tmp_path_factory) -> header_check.Apple:
    try:
        return header_check.download(tmp_path_factory.mktemp("pyobjc"))
    except subprocess.CalledProcessError as error:
        missing(f"pip download of {header_check.WHEEL}: {error.stderr.decode()[-500:]}")
        raise


def test_values_of_enumerations_are_apples(apple):
    own = header_check.enumerators()
    assert len(own) > 50
    known = {name: apple.values[name] for name in own if name in apple.values}
    assert {name: own[name] for name in known} == known
    assert sorted(set(own) - set(known)) == []


def test_selectors_are_apples(apple):
    own = header_check.selectors()
    assert len(own) > 50
    assert {selector for selector in own if not apple.has_selector(selector)} <= header_check.DOCUMENTED
