"""PTX of every kernel, into build/gpu; and of matvecs with other numbers of outputs a SIMD-group, for tuning."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from metal_sim import build

ROOT = Path(__file__).resolve().parent.parent.parent
METAL, OUT = ROOT / "metal", ROOT / "build" / "gpu"
TUNED = ("q8_0", "q4_0", "q4_k", "q6_k")
OUTPUTS = (4,)
# Loop strength reduction gives every load of a loop a pointer of its own: too many registers, too few threads to hide
# the latency of memory.
build._PTX += ["-mllvm", "-disable-lsr"]


def variant(name: str, outputs: int) -> str:
    """The matvecs of a type's file with NR = outputs, under the names of the usual ones."""
    text = (METAL / f"{name}.metal").read_text()
    lines = [line for line in text.splitlines() if '"' not in line or "include" in line or f"matvec_{name}_" in line]
    return re.sub(r"(matvec<\w+), \d+,", rf"\1, {outputs},", "\n".join(lines)) + "\n"


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    for path in sorted(METAL.glob("*.metal")):
        shutil.copy(build.ptx(path), OUT / f"{path.stem}.ptx")
    # A variant has no embed and no tiles: the headers' other templates must be gone too.
    for name in TUNED:
        for outputs in OUTPUTS:
            source = OUT / f"{name}-nr{outputs}.metal"
            text = variant(name, outputs)
            text = text.replace('#include "embed.h"\n', "").replace('#include "matmul.h"\n', "")
            glu = f'template [[host_name("unused_{name}")]] kernel decltype(matvec_staged<{name.upper()}, 1, 1>) '
            source.write_text(text + glu + f"matvec_staged<{name.upper()}, 1, 1>;\n")
            shutil.copy(build.ptx(source, METAL), OUT / f"{source.stem}.ptx")
            source.unlink()
    print(f"{len(list(OUT.glob('*.ptx')))} files in {OUT}")


if __name__ == "__main__":
    main()
