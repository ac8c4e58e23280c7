//! Which of Nsight Compute's metrics make the figures of a report.
//!
//! Names as in `ncu --query-metrics`; those with blanks are the labels of the details page.

/// Metrics, each with its factor.
pub type Sum = &'static [(&'static str, f64)];

/// Which metrics make a figure of a report: the first of these sums whose metrics are all there.
pub const FIGURES: [(&str, &[Sum]); 28] = [
    (
        "time",
        &[
            &[("gpu__time_duration.sum", 1.0)],
            &[("gpu__time_duration.avg", 1.0)],
            &[("Duration", 1.0)],
        ],
    ),
    (
        "occupancy",
        &[
            &[("sm__maximum_warps_per_active_cycle_pct", 1.0)],
            &[("Theoretical Occupancy", 1.0)],
        ],
    ),
    (
        "registers",
        &[
            &[("launch__registers_per_thread", 1.0)],
            &[("Registers Per Thread", 1.0)],
        ],
    ),
    (
        "warp_instructions",
        &[
            &[("smsp__inst_executed.sum", 1.0)],
            &[("sm__inst_executed.sum", 1.0)],
            &[("Executed Instructions", 1.0)],
        ],
    ),
    (
        "lane_instructions",
        &[
            &[("smsp__thread_inst_executed_pred_on.sum", 1.0)],
            &[("smsp__thread_inst_executed.sum", 1.0)],
        ],
    ),
    (
        "lanes",
        &[
            &[("smsp__thread_inst_executed_per_inst_executed.ratio", 1.0)],
            &[("Avg. Active Threads Per Warp", 1.0)],
        ],
    ),
    (
        "flops_f32",
        &[&[
            ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 1.0),
            ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 1.0),
            ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 2.0),
        ]],
    ),
    (
        "flops_f64",
        &[&[
            ("smsp__sass_thread_inst_executed_op_dadd_pred_on.sum", 1.0),
            ("smsp__sass_thread_inst_executed_op_dmul_pred_on.sum", 1.0),
            ("smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", 2.0),
        ]],
    ),
    (
        "global_load_requests",
        &[&[("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 1.0)]],
    ),
    (
        "global_load_sectors",
        &[&[("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 1.0)]],
    ),
    (
        "global_store_requests",
        &[&[("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", 1.0)]],
    ),
    (
        "global_store_sectors",
        &[&[("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", 1.0)]],
    ),
    ("global_atomic_requests", ATOMIC_REQUESTS),
    ("global_atomic_sectors", ATOMIC_SECTORS),
    (
        "local_requests",
        &[&[
            ("l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum", 1.0),
            ("l1tex__t_requests_pipe_lsu_mem_local_op_st.sum", 1.0),
        ]],
    ),
    (
        "local_sectors",
        &[&[
            ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", 1.0),
            ("l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum", 1.0),
        ]],
    ),
    (
        "dram_read",
        &[
            &[("dram__bytes_read.sum", 1.0)],
            &[("dram__bytes_op_read.sum", 1.0)],
        ],
    ),
    (
        "dram_write",
        &[
            &[("dram__bytes_write.sum", 1.0)],
            &[("dram__bytes_op_write.sum", 1.0)],
        ],
    ),
    (
        "shared_load_requests",
        &[&[("smsp__inst_executed_op_shared_ld.sum", 1.0)]],
    ),
    (
        "shared_load_wavefronts",
        &[&[("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", 1.0)]],
    ),
    (
        "shared_load_conflicts",
        &[&[(
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
            1.0,
        )]],
    ),
    (
        "shared_store_requests",
        &[&[("smsp__inst_executed_op_shared_st.sum", 1.0)]],
    ),
    (
        "shared_store_wavefronts",
        &[&[("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", 1.0)]],
    ),
    (
        "shared_store_conflicts",
        &[&[(
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
            1.0,
        )]],
    ),
    (
        "shared_atomic_wavefronts",
        &[&[(
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
            1.0,
        )]],
    ),
    (
        "shared_atomic_conflicts",
        &[&[(
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum",
            1.0,
        )]],
    ),
    (
        "branches",
        &[
            &[("smsp__sass_branch_targets.sum", 1.0)],
            &[("Branch Instructions", 1.0)],
        ],
    ),
    (
        "divergent_branches",
        &[&[("smsp__sass_branch_targets_threads_divergent.sum", 1.0)]],
    ),
];

/// `atom` returns the old value, `red` does not.
const ATOMIC_REQUESTS: &[Sum] = &[
    &[
        ("l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum", 1.0),
        ("l1tex__t_requests_pipe_lsu_mem_global_op_red.sum", 1.0),
    ],
    &[("l1tex__t_requests_pipe_lsu_mem_global_op_red.sum", 1.0)],
    &[("l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum", 1.0)],
];

const ATOMIC_SECTORS: &[Sum] = &[
    &[
        ("l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum", 1.0),
        ("l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum", 1.0),
    ],
    &[("l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum", 1.0)],
    &[("l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum", 1.0)],
];
