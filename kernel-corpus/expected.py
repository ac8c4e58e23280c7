"""Writes the `// expect` lines of the clean kernels: what each must compute, from its definition.

Nothing here knows the kernels' code or the simulator. `python3 kernel-corpus/expected.py` rewrites the files whose
lines differ, and prints their names. Inputs are 0, 1, 2, ... (iota) where nothing else is said.
"""

import re
import sys
import textwrap
from pathlib import Path

import expected_hopper

KERNELS = Path(__file__).parent / "kernels"


def part(b, size):
    """The elements of block b of the input 0, 1, 2, ..."""
    return range(b * size, (b + 1) * size)


def product(a, b, m, n, k):
    """The elements of an m by n matrix product; a and b are functions of row and column."""
    return [sum(a(row, x) * b(x, col) for x in range(k)) for row in range(m) for col in range(n)]


def transposed(rows, cols):
    return [row * cols + col for col in range(cols) for row in range(rows)]


def counts(values, bins):
    values = list(values)
    return [values.count(b) for b in range(bins)]


def segmented_scan_of_ones(starts):
    runs = []
    for start in starts:
        runs.append(1 if start or not runs else runs[-1] + 1)
    return runs


def laplace(rows, cols):
    def at(row, col):
        return row * cols + col if 0 <= row < rows and 0 <= col < cols else 0

    return [
        at(r - 1, c) + at(r + 1, c) + at(r, c - 1) + at(r, c + 1) - 4 * at(r, c)
        for r in range(rows)
        for c in range(cols)
    ]


def life(cells):
    """The next generation of the game of life on a torus of 16 by 16."""
    following = []
    for y in range(16):
        for x in range(16):
            near = [(y + dy) % 16 * 16 + (x + dx) % 16 for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
            alive = sum(cells[at] for at in near)
            following.append(int(alive == 3 or (alive == 2 and cells[y * 16 + x] == 1)))
    return following


def votes(k):
    warp = part(k // 32, 32)
    high = [x for x in warp if x % 32 >= 20]
    return (40 in warp) + 2 * all(x < 64 for x in warp) + 4 * (k in high and all(x > 60 for x in high))


def relaxed(x, rounds):
    for _ in range(rounds):
        x = [x[k - 1] + x[(k + 1) % len(x)] - x[k] for k in range(len(x))]
    return x


def shifted_sums(rounds):
    x = list(range(128))
    for _ in range(rounds):
        x = [x[(k + 1) % 128] + k for k in range(128)]
    return x


def chain(blocks):
    x = list(range(32))
    out = list(x)
    for _ in range(1, blocks):
        x = [value + 1 for value in reversed(x)]
        out += x
    return out


def row_through(blocks):
    row = list(range(64))
    for b in range(blocks):
        row = [x + b for x in reversed(row)]
    return row


def argmax(row):
    return [max(row), row.index(max(row))]


def best_odd():
    """Of each column of 3 by 32 values, 10 times the largest odd one, and its row; -1 if there is none."""
    columns = [[(t + 32 * i) * 5 % 37 for i in range(3)] for t in range(32)]
    odd = [[x for x in column if x % 2 == 1] for column in columns]
    return [10 * max(x) + column.index(max(x)) if x else -1 for x, column in zip(odd, columns)]


def sums(place):
    return sum(place + i for i in range(3))


def list_argument(file, number):
    """The values of an argument that is given as a list in the kernel's file."""
    args = " ".join(re.findall(r"^// args: (.*)$", (KERNELS / file).read_text(), re.M)).split()
    return [int(value) for value in re.search(r"\{(.*)\}", args[number]).group(1).split(",")]


def of_equal_keys(k):
    """1000 times the first value of the warp with the same remainder by 5, and so on."""
    group = [x for x in part(k // 32, 32) if x % 5 == k % 5]
    larger = k % 32 % 5 < 3 and group[-1] > k
    return 1000 * group[0] + 10 * sum(x % 2 for x in group) + larger


def reversed_rows(k):
    """A warp's row is reversed and its first element added; then half-warps are reversed."""
    warp = part(k // 32, 32)
    row = [x + warp[0] for x in reversed(warp)]
    lane = k % 32
    return row[lane ^ 15] + 100 * row[lane // 16 * 16 + 15] + 10000 * (0 in row)


def doubled(x, rounds):
    """Each element plus its right neighbour, again and again."""
    for _ in range(rounds):
        x = [x[k] + x[(k + 1) % len(x)] for k in range(len(x))]
    return x


def copied(rounds):
    x = doubled([k + 1 for k in reversed(range(64))], rounds)
    return [value + (k < 32) for k, value in enumerate(reversed(x))]


ROWS = list_argument("clean_reduce_argmax.cu", 0)
STARTS = list_argument("clean_scan_segmented.cu", 1)
CELLS = list_argument("clean_game_of_life.cu", 0)
KEPT = [k for k in range(128) if k % 5 < 2]
BUCKETS = [k % 7 % 4 for k in range(64)]
SHIFTED = [k - 20 for k in range(64)]
VISITED = [int(v in {i * i % 97 for i in range(384)}) for v in range(97)]
LONG_COUNTS = counts(((i * 7 + i // 9) % 8 for i in range(120000)), 8)
SQUARES = sum(k * k for k in range(64))
INVERSE_OF_27 = [next(k for k in range(64) if k * 27 % 64 == place) for place in range(64)]

# By kernel: the number of a buffer argument, the type of its elements, and all of them.
EXPECTED = {
    "barrier_of_early_return": [(1, "i32", [2 * t + 95 - t for t in range(64)])],
    "barriers_in_branches": [(1, "i32", [31 - t for t in range(32)] + [95 - t for t in range(32, 64)])],
    "reduce_tree": [(1, "f32", [sum(part(b, 128)) for b in range(2)])],
    "reduce_interleaved": [(1, "i32", [sum(part(b, 64)) for b in range(2)])],
    "reduce_ragged": [(1, "f32", [sum(range(64)), sum(range(64, 100))])],
    "reduce_two_levels": [(1, "f32", [sum(part(b, 160)) for b in range(2)])],
    "reduce_grid_stride": [(1, "i32", [sum(range(1000))])],
    "reduce_warp_synchronous": [(1, "f32", [sum(part(w, 32)) for w in range(2)])],
    "reduce_warp_volatile": [(1, "i32", [sum(range(64))])],
    "reduce_last_block": [(1, "f32", [sum(part(b, 64)) for b in range(4)]), (3, "f32", [sum(range(256))])],
    "last_block_whole_row": [(3, "i32", [sum((b * 32 + t) ** 2 for b in range(4)) for t in range(32)])],
    "reduce_argmax": [(1, "i32", argmax(ROWS[:32]) + argmax(ROWS[32:]))],
    "reduce_redux": [(1, "i32", [sum(SHIFTED[:32]), min(SHIFTED[:32]), 31, sum(SHIFTED[32:]), min(SHIFTED[32:]), 63])],
    "reduce_dot_double": [(2, "f64", [sum(part(row, 16)) for row in range(4)])],
    "scan_two_buffers": [(1, "i32", [sum(range(k + 1)) for k in range(64)])],
    "scan_in_place": [(1, "i32", [sum(range(k // 64 * 64, k + 1)) for k in range(128)])],
    "scan_blelloch": [(1, "i32", [sum(range(k)) for k in range(64)])],
    "scan_by_warps": [(1, "i32", [sum(range(k + 1)) for k in range(128)])],
    "scan_look_back": [
        (1, "i32", [sum(range(k + 1)) for k in range(192)]),
        (2, "i32", [sum(range(32 * (b + 1))) for b in range(6)]),
    ],
    "scan_segmented": [(2, "i32", segmented_scan_of_ones(STARTS))],
    "transpose_naive": [(1, "i32", transposed(7, 20))],
    "transpose_tiled": [(1, "i32", transposed(20, 25))],
    "transpose_tile_loop": [(1, "i32", transposed(16, 32))],
    "transpose_by_shuffles": [(1, "i32", transposed(8, 4))],
    "gemm_naive": [(2, "f32", product(lambda r, x: r * 9 + x, lambda x, c: x * 9 + c, 11, 9, 9))],
    "gemm_tiled_ragged": [(2, "f32", product(lambda r, x: r * 10 + x, lambda x, c: x * 9 + c, 11, 9, 10))],
    "gemm_double_buffered": [(2, "f32", product(lambda r, x: r * 32 + x, lambda x, c: 1 + c, 8, 16, 32))],
    "gemm_register_tile": [(2, "f32", product(lambda r, x: r * 8 + x, lambda x, c: x * 16 + c, 16, 16, 8))],
    "gemm_split_k": [(2, "f32", product(lambda r, x: r * 32 + x, lambda x, c: 1 + c, 4, 8, 32))],
    "matvec_warp_per_row": [(2, "f32", [sum(part(row, 40)) for row in range(4)])],
    "softmax_row_per_warp": [(1, "f32", [1 / 16 if (t + r) % 2 == 0 else 0 for r in range(4) for t in range(32)])],
    "softmax_row_per_block": [(1, "f32", [1 / 32 if t % 4 == b else 0 for b in range(2) for t in range(128)])],
    "centre_rows": [(0, "f32", [k % 64 - 31.5 for k in range(256)])],
    "stencil_shared_halo": [
        (1, "f32", [(k - 1 if k > 0 else 0) + 2 * k + (k + 1 if k < 127 else 0) for k in range(128)])
    ],
    "stencil_five_point": [(1, "i32", laplace(11, 13))],
    "stencil_marching": [
        (1, "f32", [sum(64 * n + k for n in (z - 1, z, z + 1) if 0 <= n < 8) for z in range(8) for k in range(64)])
    ],
    "game_of_life": [(1, "u8", life(CELLS))],
    "histogram_global_atomics": [(1, "i32", counts((k % 7 for k in range(128)), 7))],
    "histogram_private": [(1, "u32", counts((3 * k % 10 for k in range(192)), 10))],
    "histogram_per_thread_bytes": [(1, "i32", counts((k // 7 % 4 for k in range(256)), 4))],
    "histogram_match": [(1, "i32", counts((k // 3 % 5 for k in range(128)), 5))],
    "compact_ballot": [(1, "i32", KEPT + [0] * (128 - len(KEPT))), (2, "i32", [len(KEPT)])],
    "compact_aggregated": [(2, "i32", [64]), (3, "i32", [sum(k * k for k in range(1, 128, 2))])],
    "vote_any_all": [(1, "i32", [votes(k) for k in range(96)])],
    "shuffle_partial_mask": [(1, "i32", [k + 100 * (k + 3 if k + 3 < 20 else k) for k in range(20)])],
    "masks_of_equal_keys": [(1, "i32", [of_equal_keys(k) for k in range(64)])],
    "masks_of_two_rounds": [(1, "i32", [k + (k ^ 1) + (k ^ 16) + (k ^ 17) for k in range(32)])],
    "masks_name_lanes_that_left": [(1, "i32", [(k ^ 1) + (100 if k >= 32 else 0) for k in range(52)])],
    "shuffle_between_shared_accesses": [(1, "i32", [reversed_rows(k) for k in range(64)])],
    "shared_arrays_side_by_side": [
        (1, "i32", [
            sum(64 - k - i for i in (1, 2, 3) if k + i <= 64) + (63 - k) ** 2 + sum(part(k % 2, 32))
            for k in range(64)
        ])
    ],
    "shared_pointer_to_either": [
        (1, "i32", [sum(doubled(list(range(32)), 3 if k % 2 else 2)) + k // 2 + 16 + k // 2 for k in range(32)])
    ],
    "shuffle_segments": [(1, "i32", [sum(part(k // 8, 8)) for k in range(32)])],
    "shuffle_short_warp": [(1, "i32", [sum(range(32)), sum(range(32, 48))])],
    "sort_warp_bitonic": [(1, "i32", sorted(k * 19 % 32 - 8 for k in range(32)))],
    "sort_bitonic_shared": [(1, "i32", sorted(k * 37 % 128 for k in range(128)))],
    "sort_odd_even": [(1, "i32", sorted(63 - k for k in range(64)))],
    "sort_local_insertion": [(1, "i32", [x for t in range(16) for x in sorted(k * 7 % 11 for k in part(t, 5))])],
    "radix_pass": [(1, "u32", sorted((k * 13 % 32 for k in range(32)), key=lambda x: x % 4))],
    "producer_consumer_named": [(1, "i32", [x + 1 for row in range(4) for x in reversed(part(row, 32))])],
    "producer_consumer_arrive": [(1, "i32", [2 * x for row in range(8) for x in reversed(part(row, 32))])],
    "producer_consumer_flag": [(1, "i32", [k * k for k in range(8)])],
    "named_barrier_half_block": [(1, "i32", [x + half for half in range(2) for x in reversed(part(half, 64))])],
    "barrier_behind_branch": [(1, "i32", [63 - t if t < 16 else 2 * t for t in range(64)])],
    "writers_and_readers": [(1, "i32", [2 * (31 - t) for t in range(32)])],
    "tile_filled_before_return": [(1, "i32", [sum(range(t, min(t + 8, 40))) for t in range(40)])],
    "early_exit_counted": [(1, "i32", list(reversed(range(96))))],
    "early_exit_after_barrier": [(1, "i32", [k + 1 if k % 64 < 63 and k < 99 else -1 for k in range(100)])],
    "barriers_of_roles": [(1, "i32", list(reversed(range(32))) + list(reversed(range(32, 64))))],
    "barrier_copied": [(1, "i32", copied(7))],
    "barrier_in_uniform_loop": [(1, "i32", [(t + 5) % 64 + 5 for t in range(64)])],
    "barrier_counts": [(1, "i32", [100 * 48 + 10 * 1 + 0] * 96)],
    "spin_lock_blocks": [(0, "i32", [0]), (1, "i32", [1 + 2 + 3 + 4 + 5 + 6, 6])],
    "spin_lock_lanes": [(0, "i32", [0]), (1, "i32", [2 * sum(range(32))])],
    "spin_lock_shared": [
        (1, "i32", counts(BUCKETS, 4)),
        (2, "i32", [sum(k for k in range(64) if BUCKETS[k] == b) for b in range(4)]),
    ],
    "grid_barrier": [(3, "i32", [2 * k + 2 * (127 - k) for k in range(128)])],
    "grid_sync": [(0, "i32", shifted_sums(2)), (1, "i32", shifted_sums(3))],
    "grid_barrier_relaxation": [
        (0, "i32", relaxed(list(range(128)), 2)),
        (1, "i32", relaxed(list(range(128)), 3)),
    ],
    "flag_chain": [(1, "i32", chain(5))],
    "flag_acquire_release": [(3, "i32", [3 * (31 - t) for t in range(32)])],
    "persistent_work_counter": [(1, "i32", [7 * k - 3 for k in range(320)])],
    "persistent_warps": [(1, "i32", [sum(part(row, 32)) for row in range(7)])],
    "atomic_float_max": [(1, "f32", [127 / 2])],
    "atomic_wide": [(1, "u64", [min((77 * k + 50) % 128 << 32 | k for k in range(128))])],
    "same_value": [(1, "i32", [1]), (2, "i32", list(range(64)))],
    "copy_vector_tail": [(1, "f32", list(range(102)))],
    "copy_bytes": [
        (1, "u8", list(reversed(range(64)))),
        (2, "u16", [k * 256 + k for k in range(64)]),
        (3, "u8", [k + 1 + k % 2 for k in range(64)]),
    ],
    "halves_in_shared": [(1, "f16", list(reversed(range(64))))],
    "records": [(0, "i32", [y for x in range(0, 96, 3) for y in (x + 2, x + 1, x + x + 1)])],
    "ragged_filter": [(1, "f32", [sum(c * (i + k) for k, c in enumerate([1, -2, 3, 4, 3, -2, 1])) for i in range(128)])],
    "ragged_row_and_count": [(1, "i32", 64 * [sum((63 + k) * (k + 1) for k in range(7))]), (2, "i32", [63])],
    "constant_table": [(1, "i32", [k * [1, -2, 30, 400][k % 4] for k in range(32)])],
    "dynamic_shared_carved": [(1, "f64", [(31 - t) ** 2 + (t + 1) % 32 for t in range(32)])],
    "gather_scatter": [(1, "i32", INVERSE_OF_27), (2, "i32", [2 * (k * 19 % 64) for k in range(64)])],
    "own_element_in_place": [(0, "f32", [k / 16 + 1 + 1 / 2 + 1 / 4 + 1 / 8 for k in range(128)])],
    "index_three_dimensions": [(0, "i32", [100 * z + 10 * y + x for z in range(5) for y in range(3) for x in range(7)])],
    "pointer_jumping": [(1, "i32", [max(range(k, 32, 3)) for k in range(32)])],
    "global_exchange_in_block": [(2, "i32", [k // 64 * 64 + (k + 32) % 64 + 1 for k in range(128)])],
    "global_exchange_in_warp": [(2, "i32", [k + 1 + 1 + 1 for k in range(128)])],
    "visited_marks": [(number, kind, VISITED) for number, kind in enumerate(["u8", "u16", "u32", "u64"])],
    "fence_before_barrier": [(2, "i32", [sum(b * 100 + 63 - t for b in range(5)) for t in range(64)])],
    "flag_chain_of_forty": [(0, "i32", row_through(40))],
    "halves_odd_rows": [(0, "u16", [3 * x for b in range(5) for x in reversed(part(b, 33))])],
    "wait_by_whole_block": [(3, "i32", [5 * (63 - t) for b in range(5) for t in range(64)])],
    "wait_for_long_block": [(1, "u32", LONG_COUNTS), (2, "u32", [LONG_COUNTS[b % 8] for b in range(64)])],
    "grid_barrier_many_blocks": [(1, "i32", [SQUARES - b for b in range(64)]), (3, "i32", [SQUARES] * 64)],
    "warp_exchange_half_masks": [(1, "i32", [(k ^ 15) + 2 for k in range(32)])],
    "assertion_holds": [(1, "i32", [31 - k for k in range(32)])],
    "broadcast_from_leader": [(1, "i32", [value + lane for value in (40, 50) for lane in range(32)])],
    "set_and_used_in_branches": [(1, "f32", [k % 64 for k in range(100)])],
    "bytes_across_blocks": [(0, "u8", [2 * k + 1 for k in range(120)])],
    "pixels_of_three_bytes": [(1, "u8", [y for x in range(0, 192, 3) for y in (x + 2, x + 1, x)])],
    "red_black_halves": [(0, "u16", [k + (k - 1) % 128 + k + 1 if k % 2 == 0 else k for k in range(128)])],
    "flag_transitive": [(3, "i32", [31 - t + 5 + t * t for t in range(32)])],
    "scratch_slots": [(1, "i32", [3 * x for b in range(6) for x in reversed(part(b, 32))])],
    "shared_memory_reused": [
        (1, "u8", [(63 - (t ^ 1)) // 2 for t in range(64)]),
        (2, "f32", [(63 - t) / 2 for t in range(64)]),
    ],
    "three_warps_two_barriers": [(1, "i32", [31 - t + 7 for t in range(32)])],
    "tile_broadcast": [(1, "i32", [sum(t // 8 * 8 + round for round in range(3)) for t in range(64)])],
    "warp_slot_reused": [(1, "i32", [sum(t // 32 * 32 + round for round in range(4)) for t in range(96)])],
    "syncwarp_transitive": [(1, "i32", [t - 16 + t - 8 if 16 <= t % 32 < 24 else 0 for t in range(64)])],
    "same_value_types": [
        (0, "u16", [0, 7, 0, 0]),
        (1, "f64", [0, 2.5]),
        (2, "i32", [0, 0, 0, 0, 1, 2, 3, 4]),
        (3, "u16", [0, 0, 5, 6, 5, 6, 0, 0]),
        (4, "f64", [9 + 0.5 + 40] * 192),
    ],
    "named_barrier_then_flag": [(2, "i32", [3 * (63 - t) + 1 for t in range(64)])],
    "flag_through_block": [(0, "i32", list(range(32, 64))), (2, "i32", list(range(63, 31, -1)))],
    "best_so_far": [(1, "i32", best_odd())],
    "hoisted_from_guard": [
        (1, "i32", [(t + 3) ** 2 * (31 - t) + 7 * i if t < 16 else 0 for i in range(3) for t in range(32)])
    ],
    "wait_after_shared_read": [
        (0, "i32", list(reversed([sums(1024 + t) for t in range(32)])) + 2 * [sums(33 * t) for t in range(32)])
    ],
    "atomic_after_own_write": [(0, "i32", [7 + 2]), (2, "i32", [100 + 64] * 3)],
    "cas_double_sum": [(1, "f64", [sum(range(k, 128, 2)) + 64 for k in range(2)])],
    "cas_shared_sum": [(1, "f64", 2 * [sum(range(64))]), (2, "u16", 2 * [32])],
    "cas_float_max": [(1, "f32", [max(range(k, 256, 4)) / 2 for k in range(4)])],
    "half_of_a_pair": [(2, "i32", [63 - 2 * t for t in range(32)]), (3, "i32", list(range(32)))],
    "padding_stored": [
        (a, "i32", [3 * k + 3 + (k + 3 if k < 20 else 0) for k in reversed(range(32))]) for a in (2, 3)
    ],
    "unset_fourth_component": [(1, "f32", [9 * t + 4 + 3 * (31 - t) + 1 for t in range(32)])],
    "unset_fourth_byte": [
        (1, "u32", [18 * k + 8 + 1000 * (3 * k > 40 and 3 * k + 1 > 50) for k in reversed(range(32))])
    ],
    "unset_fourth_byte_copied": [(2, "u32", [9 * t + 3 for t in range(32)])],
    "unset_half_of_a_pair": [(1, "u16", [2 * i for i in range(63)])],
    "unset_index_of_a_value": [(a, kind, [x]) for a, kind, x in zip(
        (1, 2), ("f32", "i32"), max((t * (t % 7), t) for t in range(50)))],
    "unset_padding_of_rows": [
        (2, "f32", [sum(range(30 * r + c, 30 * r + min(c + 4, 30))) for r in range(8) for c in range(0, 32, 4)])
    ],
    "unset_field_of_a_local_struct": [(1, "i32", [t + t % 4 for t in range(32)])],
    "mbarrier_producer_consumer": [(1, "i32", [x for k in range(8) for x in reversed(part(k, 32))])],
    "mbarrier_copies": [(1, "f32", [x for b in range(2) for x in reversed(part(b, 64))])],
    "mbarrier_two_phases": [(1, "i32", [x for k in range(2) for x in reversed(part(k, 32))])],
    "mbarrier_copies_two_phases": [(1, "f32", [x for k in range(2) for x in reversed(part(k, 64))])],
    "mbarrier_waits_while_another_block_works": [(0, "i32", [7]), (1, "i32", 32 * [7])],
    "mbarrier_polls_a_limited_time": [(0, "i32", 64 * [0])],
    "mma_fragments": [(0, "f32", [16 * column for _ in range(16) for column in range(8)])],
    "swizzled_tile": [(1, "i32", [2 * k for k in range(256)])],
    "copy_async_reverse": [(1, "f32", [x for b in range(2) for x in reversed(part(b, 64))])],
    "copy_async_double_buffered": [
        (1, "f32", [sum(512 * b + 64 * row + 63 - t for row in range(8)) for b in range(2) for t in range(64)])
    ],
    "copy_async_zero_filled": [
        (1, "f32", [i if i < 50 else 0 for i in reversed(range(64))]
            + [i if i < 50 and i % 2 == 1 else 0 for i in reversed(range(64))])
    ],
    "copy_async_empty_group": [(1, "f32", [100 * (t | 1) + (t & 30) for t in range(32)])],
    "copy_async_own_element": [(1, "f32", [2 * i for i in range(128)])],
    "copy_async_two_roles": [(1, "f32", [sum(32 * row + 31 - t for row in range(4)) for t in range(32)])],
    "matrix_moved_rows_not_filled": [(1, "u16", list(range(40)))],
    "matrix_rows_not_filled": [(2, "f32", product(lambda i, k: 16 * i + k, lambda k, j: 16 * j + k, 11, 6, 16))],
    "matrix_product": [(2, "f32", product(lambda i, k: 16 * i + k, lambda k, j: 16 * j + k, 16, 8, 16))],
    "binary_search": [(1, "i32", [min(sum(x < 2 * t - 3 for x in range(50)), 50) for t in range(32)])],
}


def lines(expected):
    for argument, kind, values in expected:
        words = " ".join(repr(value).removesuffix(".0") for value in values)
        for line in textwrap.wrap(words, 100):
            yield f"// expect {argument}: {kind} {line}\n"


def write(prefix, expected):
    files = {path.stem.removeprefix(prefix): path for path in KERNELS.glob(f"{prefix}*.cu")}
    if files.keys() != expected.keys():
        sys.exit(f"not both a kernel and an expectation: {sorted(files.keys() ^ expected.keys())}")
    for name, path in sorted(files.items()):
        old = path.read_text()
        kept = re.sub(r"^// expect .*\n", "", old, flags=re.M)
        new = re.sub(r"^// bug: .*\n", lambda bug: bug[0] + "".join(lines(expected[name])), kept, count=1, flags=re.M)
        if new != old:
            path.write_text(new)
            print(path.name)


if __name__ == "__main__":
    write("clean_", EXPECTED | expected_hopper.EXPECTED)
    write("bug_wrong_result_", expected_hopper.WRONG)
