"""Writes orders.txt: what torch.distributed.pipelining plans, for the Go tests.

A line "schedule devices micros chunks" for each plan, then a row for each device in the form of
PyTorch's CSV files. Run it in this folder with PyTorch 2.15; no process group is needed, since a
plan is made of numbers alone.
"""
import torch
from torch.distributed.pipelining import schedules


class Stage:
    """What a schedule asks of a stage when it plans."""

    has_backward, device, group, submod = True, torch.device("cpu"), None, torch.nn.Identity()

    def __init__(self, devices, index, stages):
        self.stage_index, self.num_stages, self.group_rank, self.group_size = index, stages, 0, devices
        self.is_first, self.is_last = index == 0, index == stages - 1


def order(name, devices, micros, chunks):
    cls = schedules.get_schedule_class(name)
    if chunks == 1 and issubclass(cls, schedules.PipelineScheduleSingle):
        return cls(Stage(devices, 0, devices), micros, loss_fn=len).pipeline_order
    mine = [0, 2 * devices - 1] if "V" in name else [c * devices for c in range(chunks)]
    return cls([Stage(devices, s, devices * chunks) for s in mine], micros, loss_fn=len).pipeline_order


PLANS = {"gpipe": ("GPipe", 1), "1f1b": ("1F1B", 1), "bfs": ("LoopedBFS", 2), "interleaved": ("Interleaved1F1B", 2),
         "zbh1(chunks=2)": ("InterleavedZeroBubble", 2), "zbv": ("ZBVZeroBubble", 2), "dualpipev": ("DualPipeV", 2)}

with open("orders.txt", "w") as out:
    for spec, (name, chunks) in PLANS.items():
        for devices, micros in ((2, 4), (3, 7), (4, 8), (4, 13)):
            try:
                rows = order(name, devices, micros, chunks)
            except ValueError:
                continue  # rounds of unlike size
            print(spec, devices, micros, file=out)
            for device in sorted(rows):
                print(",".join("" if a is None else str(a) for a in rows[device]), file=out)
