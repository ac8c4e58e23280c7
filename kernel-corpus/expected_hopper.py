"""What the kernels of Hopper's asynchronous instructions must compute, from their definition; expected.py writes it.

Inputs are 0, 1, 2, ... (iota) where nothing else is said. A kernel of the class `wrong result` states what its correct
relative computes.
"""


def reversed_parts(count, size=64):
    """Parts of the input, each in reverse."""
    return [size * part + size - 1 - t for part in range(count) for t in range(size)]


def box(rows, columns, matrix_rows, matrix_columns, row, column):
    """A box of the matrix 0, 1, 2, ..., from this row and column on; 0 where it leaves the matrix."""

    def at(r, c):
        return r * matrix_columns + c if 0 <= r < matrix_rows and 0 <= c < matrix_columns else 0

    return [at(row + r, column + c) for r in range(rows) for c in range(columns)]


def stored_box():
    """A matrix of zeros, 16 by 16, with the tile 3 * 63, 3 * 62, ... from row 6 and column 12 on, as far as it fits."""
    out = 256 * [0]
    for i in range(64):
        row, column = 6 + i // 8, 12 + i % 8
        if column < 16:
            out[16 * row + column] = 3 * (63 - i)
    return out


def boxes_side_by_side():
    """A matrix of zeros, 16 by 16, with the tiles 0, 1, 2, ... and 0, 2, 4, ... from row 4 on, side by side."""
    out = 256 * [0]
    for i in range(64):
        for column, factor in ((0, 1), (8, 2)):
            out[16 * (4 + i // 8) + column + i % 8] = factor * i
    return out


# Matrix products.


def product(a, b, rows, columns, ks):
    """Rows of the sums over all k of a(row, k) * b(k, column)."""
    return [[sum(a(r, k) * b(k, c) for k in ks) for c in range(columns)] for r in range(rows)]


def folded(results):
    """Of each thread of a warpgroup, its results in 64 rows, times 1, 2, 3, ... (PTX manual, wgmma, matrix D)."""
    sums = []
    for t in range(128):
        places = [
            (t // 32 * 16 + t % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + t % 4 * 2 + i % 2)
            for i in range(len(results[0]) // 2)
        ]
        sums.append(sum((i + 1) * int(results[row][column]) for i, (row, column) in enumerate(places)))
    assert all(abs(x) < 2**31 for x in sums)
    assert all(abs(x) < 2**24 for row in results for x in row)  # exact in f32
    return sums


def plain_a(r, k, tile=0):
    """Input 0, 1, 2, ... as tiles of 64 rows and 16 columns, in core matrices of 8 rows and 8 columns."""
    return 1024 * tile + r // 8 * 128 + k // 8 * 64 + r % 8 * 8 + k % 8


def plain_b(k, c, tile=0):
    """The same of 16 rows and 8 columns, transposed."""
    return 128 * tile + k // 8 * 64 + c * 8 + k % 8


def small_product(tile_a=0, tile_b=0):
    """The inputs stay below 2048, so they are exact in f16."""
    return product(lambda r, k: plain_a(r, k, tile_a), lambda k, c: plain_b(k, c, tile_b), 64, 8, range(16))


def sample(i):
    return (i * 5 + i // 64) % 7 - 3


def sampled(columns, step=1, shift=0):
    """A row-major matrix of samples."""
    return lambda row, column: sample(step * (columns * row + column) + shift)


def sampled_product(rows, columns, k):
    a, b = sampled(k), sampled(k, 2, 1)
    return product(a, lambda x, c: b(c, x), rows, columns, range(k))


def attention():
    q, k, v = sampled(64), sampled(64, 2, 1), sampled(64, 3, 2)
    scores = product(q, lambda x, c: k(c, x), 64, 64, range(64))
    assert all(abs(x) <= 2048 for row in scores for x in row)  # exact in f16
    return product(lambda r, c: scores[r][c], v, 64, 64, range(64))


def plus(*matrices):
    return [[sum(cells) for cells in zip(*rows)] for rows in zip(*matrices)]


def times(factor, matrix):
    return [[factor * x for x in row] for row in matrix]


ONES = [8 * [1] for _ in range(64)]
TRIPLED = [(1, "i32", [3 * x for x in reversed_parts(1)])]
REVERSED = [(1, "i32", reversed_parts(1))]
PLUS_ONE = [(2, "i32", folded(plus(ONES, small_product())))]
SWIZZLED = [(4, "i32", folded(sampled_product(64, 8, 64)))]

EXPECTED = {
    "proxy_fence_by_writers": TRIPLED,
    "proxy_fence_by_issuer": TRIPLED,
    "bulk_store_source_reused": [(1, "i32", [factor * t for factor in (1, 2) for t in range(64)])],
    "bulk_store_two_tiles": [(1, "i32", [factor * t for factor in (1, 2, 3, 4) for t in range(64)])],
    "bulk_store_read_back": [(1, "i32", [3 * t for t in range(64)]), (2, "i32", [3 * 1 + 3 * 63])],
    "bulk_store_read_by_others": [(1, "i32", [3 * t for t in range(64)]), (2, "i32", 64 * [3 * 63])],
    "bulk_reduce": [(1, "i32", [t + 2 * (63 - t) for t in range(64)])],
    "bulk_in_place": [(1, "i32", [x + 1 for x in range(192)])],
    "bulk_copy_by_one_thread": [(1, "i32", list(range(64)))],
    "bulk_load_state": [(1, "i32", reversed_parts(2))],
    "bulk_load": REVERSED,
    "bulk_load_one_warp_waits": REVERSED,
    "bulk_load_asked_for": REVERSED,
    "bulk_load_two_stages": [(1, "i32", reversed_parts(2))],
    "bulk_load_next_tile": [(1, "i32", reversed_parts(3))],
    "bulk_load_prefetch": [(1, "i32", 2 * [sum(64 * i + 63 - t for i in range(4)) for t in range(64)])],
    "producer_warp": [(1, "i32", reversed_parts(3))],
    "expect_tx_behind_the_copy": REVERSED,
    "expect_tx_of_two_copies": REVERSED,
    "expect_tx_for_each_copy": REVERSED,
    "mbarrier_count_of_the_writers": [(1, "i32", [sum(32 * i + t for i in range(4)) for t in range(32)])],
    "mbarrier_init_fence": REVERSED,
    "mbarrier_init_by_a_warp": REVERSED,
    "mbarrier_init_again": [(0, "i32", [63 - t + 1 for t in range(64)])],
    "mbarrier_init_no_fence": REVERSED,
    "mbarrier_init_proxy_fence": REVERSED,
    "tensor_load": [(2, "i32", box(8, 8, 16, 16, 4, 8)[::-1])],
    "tensor_load_edge": [(2, "i32", box(8, 8, 16, 16, -2, 12)[::-1])],
    "tensor_load_halves": [(2, "i32", [16 * r + 8 * h + c for h in range(2) for r in range(4) for c in range(8)])],
    "tensor_store_source_reused": [(1, "i32", boxes_side_by_side())],
    "tensor_store": [(1, "i32", stored_box())],
    "wgmma": PLUS_ONE,
    "wgmma_rows_not_filled": [(2, "f32", [sum((16 * r + k) * (16 * c + k) for k in range(16)) for r in range(40) for c in range(5)])],
    "wgmma_fence_behind_barrier": PLUS_ONE,
    "wgmma_operand_stored_again": PLUS_ONE,
    "wgmma_all_warps_wait": PLUS_ONE,
    "wgmma_rows_of_own_warp": PLUS_ONE,
    "wgmma_two_stages": [(2, "i32", folded(plus(small_product(), small_product(1, 1))))],
    "wgmma_sums_not_set": [(2, "i32", folded(plus(small_product(), small_product(1, 1))))],
    "wgmma_two_groups": [(2, "i32", folded(small_product()) + folded(small_product(0, 1)))],
    "wgmma_sums_rescaled": [
        (2, "i32", folded(plus(times(2, plus(ONES, small_product())), ONES, small_product(0, 1))))
    ],
    "wgmma_a_in_registers": [
        (2, "i32", folded(times(3, product(lambda r, k: 16 * r + k, plain_b, 64, 8, range(16)))))
    ],
    "wgmma_next_tiles": [(2, "i32", folded(plus(small_product(), small_product(1, 1))))],
    "wgmma_producer_warp": [
        (2, "i32", folded(plus(*(small_product(k % 2, k // 2) for k in range(4)))))
    ],
    "wgmma_swizzle_128": SWIZZLED,
    "setmaxnreg": [(1, "i32", reversed_parts(1, 256))],
    "setmaxnreg_no_bounds": [(1, "i32", reversed_parts(1, 256))],
    "setmaxnreg_and_back": [(1, "i32", reversed_parts(1, 256))],
    "pipeline": [(2, "i32", [sum(64 * row + t for row in range(56)) for t in range(64)])],
    "gemm": [(4, "i32", folded(sampled_product(64, 64, 256)))],
    "gemm_two_warpgroups": [
        (4, "i32", [x for half in (0, 64) for x in folded(sampled_product(128, 32, 192)[half:half + 64])])
    ],
    "attention_p_in_registers": [(6, "i32", folded(attention()))],
    "gemm_tensor_store": [
        (6, "i32", [sum((i + 1) * x for i, x in enumerate(row)) for row in sampled_product(64, 64, 64)])
    ],
    "persistent": [
        (1, "i32", [sum(64 * (4 * r + s) + 63 - t for s in range(4)) for r in range(5) for t in range(64)])
    ],
}
for relative in ("wgmma_one_product_behind", "wgmma_one_thread_frees"):
    EXPECTED[relative] = EXPECTED["wgmma_producer_warp"]


# Clusters of blocks.


def histograms(parts):
    """For each part of 256 elements and each cluster of 128, how often each of 16 bins occurs."""
    bins = []
    for start in range(0, 256 * parts, 128):
        hits = [(x * x + x // 3) % 16 for x in range(start, start + 128)]
        bins += [hits.count(bin) for bin in range(16)]
    return bins


def smoothed(cells, rounds):
    """Each round replaces a cell by the sum of itself and its neighbours; beyond both ends there are zeros."""
    for _ in range(rounds):
        padded = [0, *cells, 0]
        cells = [sum(padded[i:i + 3]) for i in range(len(cells))]
    return cells


def softmax_base_2(row):
    powers = [2.0 ** (x - max(row)) for x in row]
    return [power / sum(powers) for power in powers]


def split_barrier(block, t):
    own = sum(64 * block + (t + i) % 64 for i in range(8))
    return own + 3 * (64 * (block ^ 1) + 63 - t)


EXPECTED |= {f"cluster_{name}": expected for name, expected in {
    "histogram": [(1, "i32", histograms(1))],
    "histogram_of_parts": [(1, "i32", histograms(3))],
    "bulk_reduce": [(1, "i32", [
        100 + sum(256 * cluster + 64 * rank + 63 - t for rank in range(4)) for cluster in range(2) for t in range(64)
    ])],
    "sum": [(1, "i32", [sum(range(384)), sum(range(384, 768))])],
    "ring": [(1, "i32", [
        sum(512 * cluster + 128 * block + 32 * ((rank + 1) % 4) + t for block in range(4))
        for cluster in range(2) for rank in range(4) for t in range(32)
    ])],
    "stencil": [(1, "i32", smoothed(range(256), 3) + smoothed(range(256, 512), 3))],
    "two_by_two": [(2, "i32", [
        sum((64 * (6 * y + k) + t) * (64 * (6 * x + k) + 63 - t) for k in range(6))
        for y in range(2) for x in range(4) for t in range(64)
    ])],
    "ring_of_copies": [(1, "i32", [
        sum((step + 1) * (64 * (block // 4 * 4 + (block - step) % 4) + 63 - t) for step in range(4))
        for block in range(8) for t in range(64)
    ])],
    "last_block": [(1, "i32", [sum(128 * c + 32 * r + 31 - t for r in range(4)) for c in range(2) for t in range(32)])],
    "flag_chain": [(1, "i32", [3 * (63 - t) for _ in range(2) for t in range(64)])],
    "warps_returned": [(1, "i32", [
        sum(96 * (block ^ 1) + 32 * i + 31 - t for i in range(3)) for block in range(4) for t in range(32)
    ])],
    "tensor_multicast": [(2, "i32", 2 * box(8, 8, 16, 16, 4, 8)[::-1])],
    "neighbours": [(1, "i32", smoothed(range(256), 5))],
    "softmax": [("1 rel 1e-5", "f32", [
        float(f"{x:.6g}") for row in range(2)
        for x in softmax_base_2([i / 8 for i in range(128 * row, 128 * row + 128)])
    ])],
    "multicast_pipeline": [(2, "i32", [
        sum((64 * (6 * block + k) + t) * (64 * k + 63 - t) for k in range(6)) for block in range(4) for t in range(64)
    ])],
    "multicast_tile": [(1, "i32", [64 * (block // 4) + 63 - t for block in range(8) for t in range(64)])],
    "multicast_no_fence": [(1, "i32", [64 * (block // 4) + 63 - t for block in range(8) for t in range(64)])],
    "multicast_halves": [(1, "i32", [64 * (block // 2) + 63 - t for block in range(4) for t in range(64)])],
    "multicast_two_readers": [(1, "i32", [
        x for block in range(8) for start in [32 * (block // 4)]
        for x in [start + 31 - t for t in range(32)] + [3 * (start + t) for t in range(32)]
    ])],
    "tiles_sent": [(1, "i32", [3 * x for x in reversed_parts(12)])],
    "flag": [(1, "i32", [3 * x for x in reversed_parts(2, 32)])],
    "flag_fences": [(1, "i32", [3 * x for x in reversed_parts(2, 32)])],
    "block_without_work": [(1, "i32", [32 * ((block + 1) % 3) + 31 - t for block in range(3) for t in range(32)])],
    "last_row_stays": [(1, "i32", [32 * (block + 1) + 31 - t for block in range(3) for t in range(32)])],
    "split_barrier": [(1, "i32", [split_barrier(block, t) for block in range(4) for t in range(64)])],
    "arrival_relaxed_fence": [(1, "i32", [3 * (64 * (block ^ 1) + 63 - t) for block in range(4) for t in range(64)])],
    "inbox": [(1, "i32", [32 * (block ^ 1) + 31 - t for block in range(4) for t in range(32)])],
    "init_fence_relaxed": [(1, "i32", 2 * list(range(32)))],
    "transpose": [(1, "i32", [
        32 * column + 16 * matrix + row for matrix in range(2) for row in range(16) for column in range(16)
    ])],
    "gather": [(1, "i32", [
        sum(range(128 * (4 * part + block), 128 * (4 * part + block + 1)))
        for part in range(3) for _ in range(4) for block in range(4)
    ])],
    "lock": [(1, "i32", [400 + 0 + 1 + 2 + 3, 400 + 4 + 5 + 6 + 7])],
    "global_exchange": [(2, "i32", [3 * (i ^ 127) for i in range(256)])],
    "work_counter": [(1, "i32", [i * i for i in range(768)])],
    "scan": [(1, "i32", [i * (i + 1) // 2 for i in range(512)])],
}.items()}

WRONG = {
    "step_in_bytes": SWIZZLED,
    "cluster_rank_by_columns": EXPECTED["cluster_transpose"],
}
