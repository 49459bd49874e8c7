"""Reads the event file of the fixtures with TensorBoard (2.21): writes ../fixtures/tensorboard.txt.

python -m venv env && env/bin/pip install tensorboard && env/bin/python dl-train/tests/reference/event_file.py
"""

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

fixtures = Path(__file__).parent.parent / "fixtures"
file = fixtures / "events.out.tfevents.0000000000.dl.0000"

# the number of records; the loader verifies their checksums
lines = [f"records {sum(1 for _ in RawEventFileLoader(str(file)).Load())}"]
events = EventAccumulator(str(file))
events.Reload()
for tag in sorted(events.Tags()["scalars"]):
    for event in events.Scalars(tag):
        lines.append(f"{tag}: step {event.step}, value {event.value!r}, time {event.wall_time!r}")
(fixtures / "tensorboard.txt").write_text("\n".join(lines) + "\n")
