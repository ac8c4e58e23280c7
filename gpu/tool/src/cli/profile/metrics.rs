//! Which of Nsight Compute's metrics make the figures of a report.
//!
//! Names as in `ncu --query-metrics`; those with blanks are the labels of the details page.

/// Metrics whose values are added; one that counts twice stands twice.
pub type Sum = &'static [&'static str];

/// Defines [`FIGURES`]: the key of each, then the sums that may make it, the best one first.
macro_rules! figures {
    ($($key:ident: $($($metric:literal),+)|+;)*) => {
        /// Which metrics make a figure of a report: the first of these sums whose metrics are all
        /// there.
        pub const FIGURES: &[(&str, &[Sum])] = &[$((stringify!($key), &[$(&[$($metric),+]),+])),*];
    };
}

figures! {
    time: "gpu__time_duration.sum" | "gpu__time_duration.avg" | "Duration";
    occupancy: "sm__maximum_warps_per_active_cycle_pct" | "Theoretical Occupancy";
    registers: "launch__registers_per_thread" | "Registers Per Thread";
    warp_instructions: "smsp__inst_executed.sum" | "sm__inst_executed.sum" | "Executed Instructions";
    lane_instructions: "smsp__thread_inst_executed_pred_on.sum" | "smsp__thread_inst_executed.sum";
    lanes: "smsp__thread_inst_executed_per_inst_executed.ratio" | "Avg. Active Threads Per Warp";
    flops_f32:
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";
    flops_f64:
        "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum";
    // As in Nsight Compute's roofline, each instruction counts as one on a pair of values.
    flops_half:
        "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum";
    flops_tensor:
        "sm__ops_path_tensor_src_fp16_dst_fp16.sum",
        "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
        "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
        "sm__ops_path_tensor_src_fp64.sum"
        | "sm__ops_path_tensor_src_fp16.sum", // on GH100, with sums of either type
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
        "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
        "sm__ops_path_tensor_src_fp64.sum"
        | "sm__ops_path_tensor_src_fp16_dst_fp16.sum",
        "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
        "sm__ops_path_tensor_src_tf32_dst_fp32.sum";
    flops_tensor_tf32: "sm__ops_path_tensor_src_tf32_dst_fp32.sum";
    flops_tensor_f64: "sm__ops_path_tensor_src_fp64.sum";
    ops_tensor_int8: "sm__ops_path_tensor_src_int8.sum";
    global_load_requests: "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum";
    global_load_sectors: "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum";
    global_store_requests: "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum";
    global_store_sectors: "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum";
    // `atom` returns the old value, `red` does not.
    global_atomic_requests:
        "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"
        | "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"
        | "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum";
    global_atomic_sectors:
        "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"
        | "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"
        | "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum";
    local_requests:
        "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum",
        "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum";
    local_sectors:
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
        "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum";
    dram_read: "dram__bytes_read.sum" | "dram__bytes_op_read.sum";
    dram_write: "dram__bytes_write.sum" | "dram__bytes_op_write.sum";
    // The first ones leave out `ldmatrix` and asynchronous copies, which are accesses too.
    shared_load_requests:
        "smsp__inst_executed_op_shared_ld.sum",
        "smsp__inst_executed_op_ldsm.sum";
    shared_load_wavefronts: "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum";
    shared_load_conflicts: "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum";
    shared_store_requests:
        "smsp__inst_executed_op_shared_st.sum",
        "smsp__inst_executed_op_ldgsts.sum";
    shared_store_wavefronts:
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum";
    shared_store_conflicts: "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum";
    shared_atomic_wavefronts: "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum";
    shared_atomic_conflicts: "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum";
    branches: "smsp__inst_executed_op_branch.sum" | "Branch Instructions";
    divergent_branches: "smsp__sass_branch_targets_threads_divergent.sum";
}
