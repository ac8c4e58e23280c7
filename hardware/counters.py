#!/usr/bin/env python3
"""Counters of the kernel files that state a launch, measured on a GPU by Nsight Compute.

    cargo build -p gpu-tool && python3 hardware/counters.py REPORTS

Runs `ncu` for each file that has no report in the folder REPORTS yet, and prints the table of
`h200_counters.csv`, whose first lines, which name the card, are written by hand. `gpu/tool/tests/suite/hardware.rs` compares it with the
simulator. `Code` identifies what was measured: the PTX without its comments and source positions,
and the stated launch.
"""

import csv
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GPU = ROOT / "target/debug/gpu"
METRICS = """
sm__maximum_warps_per_active_cycle_pct launch__registers_per_thread
smsp__inst_executed.sum smsp__thread_inst_executed_pred_on.sum
smsp__sass_thread_inst_executed_op_fadd_pred_on.sum
smsp__sass_thread_inst_executed_op_fmul_pred_on.sum
smsp__sass_thread_inst_executed_op_ffma_pred_on.sum
l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
l1tex__t_requests_pipe_lsu_mem_global_op_st.sum l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum
smsp__inst_executed_op_shared_ld.sum l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
smsp__inst_executed_op_shared_st.sum l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum
l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum
dram__bytes_read.sum
""".split()


def code(kernel):
    """Hash of the instructions and of the launch of a kernel file."""
    ptx = subprocess.run([GPU, "ptx", kernel], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    source = (ROOT / kernel).read_text().splitlines()
    lines = [line for line in ptx.splitlines() if not line.lstrip().startswith(("//", ".loc", ".file"))]
    lines += [line for line in source if line.startswith(("// launch:", "// args:"))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


reports = Path(sys.argv[1])
reports.mkdir(exist_ok=True)
kernels = [path for folder in ("gpu", "stage*") for path in ROOT.glob(f"{folder}/kernels/**/*.cu")]
table = csv.writer(sys.stdout, lineterminator="\n")
for n, path in enumerate(sorted(path for path in kernels if "\n// launch:" in path.read_text())):
    kernel = str(path.relative_to(ROOT))
    report = reports / (kernel.replace("/", "+") + ".csv")
    if not report.exists():
        # The clock stays as it is: setting it needs rights that a container lacks.
        ncu = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--metrics", ",".join(METRICS)]
        run = subprocess.run(ncu + [GPU, "run", kernel], cwd=ROOT, check=True, capture_output=True, text=True,
                             env=os.environ | {"GPU": "cuda"})
        report.write_text(run.stdout)
    header, units, values = [row for row in csv.reader(report.open()) if len(row) > len(METRICS)][:3]
    own = ["Kernel Name"] + METRICS
    if n == 0:
        table.writerow(["File", "Code"] + own)
        table.writerow(["", ""] + [units[header.index(metric)] for metric in own])
    table.writerow([kernel, code(kernel)] + [values[header.index(metric)].replace(",", "") for metric in own])
