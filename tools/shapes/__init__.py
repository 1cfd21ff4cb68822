"""Model files of any supported shape with random, valid weights (tools/shape_model.py is the command).

    shape.py        what a shape is: named ones, JSON files, changes to either
    mixes.py        which weight type each tensor has
    tensors.py      the tensors of a shape, with their sizes
    vocabulary.py   a vocabulary of the right size
    values.py       the random contents, in bounded pieces
    writer.py       the file
    errors.py       what can go wrong

What keys and tensors a family has is said once, in tests/toy.py.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
