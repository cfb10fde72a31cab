"""What tests need of the processor they run on."""

import pytest

from vaswani_transformer.packing import has_bfloat16

needs_bfloat16 = pytest.mark.skipif(not has_bfloat16(), reason="oneDNN has no bfloat16 on this CPU")
BFLOAT16 = pytest.param("bfloat16", marks=needs_bfloat16)
