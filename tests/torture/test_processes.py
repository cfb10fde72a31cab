"""A child dies where and how it was told to. The parent must have one thread, so it is a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and watched as on Linux")

ROOT = Path(__file__).parents[2]

_PARENT = """
import json, signal, sys, time
from pathlib import Path
from tests.torture import processes
from tests.torture.processes import Child, counting_lines, killing_itself, module
folder = Path(sys.argv[1])
(folder / "job.py").write_text('import os, sys; print(sys.argv[1], os.environ["KEY"]); sys.exit("error: gone")')
processes._TRACED = (str(folder),)
(folder / "work.py").write_text("def save_state():\\n    a = 1\\n    b = 2\\n    return a + b\\n")
sys.path.insert(0, str(folder))
from work import save_state
def ended(program, seconds=30):
    child = Child(program, folder / "said")
    return child.wait(seconds), child.words, child
status, words, _ = ended(module("job", "argument", environment={"KEY": "value"}))
assert (status, words) == (1, "argument value\\nerror: gone"), (status, words)
assert ended(counting_lines(save_state, folder / "counts"))[0] == 0
assert json.loads((folder / "counts").read_text()) == {"save_state": 3}
status, _, _ = ended(killing_itself(save_state, "save_state", 2, folder / "place"))
assert status == -signal.SIGKILL and (folder / "place").read_text() == "work.py:3"
assert ended(killing_itself(save_state, "save_state", 4, folder / "place"))[0] == 0
status, words, child = ended(lambda: time.sleep(60), 0.05)
assert status is None
child.send(signal.SIGTERM)
assert child.wait(30) == -signal.SIGTERM
status, words, _ = ended(lambda: 1 / 0)
assert status == 1 and words.endswith("ZeroDivisionError: division by zero")
import threading
done = threading.Event()
threading.Thread(target=done.wait).start()
try:
    Child(print, folder / "said")
except RuntimeError as error:
    print(error)
done.set()
"""


def test_children_die_as_they_are_told(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _PARENT, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "has 2 threads and cannot be forked soundly" in done.stdout
