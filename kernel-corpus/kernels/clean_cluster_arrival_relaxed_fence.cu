// Relaxed arrival at the barrier of the cluster, behind a fence at cluster scope.
//
// arch: compute_90a
// launch: grid=4 block=64
// args: i32[256]=iota i32[256]=zeros
// bug: none
// expect 1: i32 381 378 375 372 369 366 363 360 357 354 351 348 345 342 339 336 333 330 327 324 321 318 315 312 309
// expect 1: i32 306 303 300 297 294 291 288 285 282 279 276 273 270 267 264 261 258 255 252 249 246 243 240 237 234
// expect 1: i32 231 228 225 222 219 216 213 210 207 204 201 198 195 192 189 186 183 180 177 174 171 168 165 162 159
// expect 1: i32 156 153 150 147 144 141 138 135 132 129 126 123 120 117 114 111 108 105 102 99 96 93 90 87 84 81 78
// expect 1: i32 75 72 69 66 63 60 57 54 51 48 45 42 39 36 33 30 27 24 21 18 15 12 9 6 3 0 765 762 759 756 753 750
// expect 1: i32 747 744 741 738 735 732 729 726 723 720 717 714 711 708 705 702 699 696 693 690 687 684 681 678 675
// expect 1: i32 672 669 666 663 660 657 654 651 648 645 642 639 636 633 630 627 624 621 618 615 612 609 606 603 600
// expect 1: i32 597 594 591 588 585 582 579 576 573 570 567 564 561 558 555 552 549 546 543 540 537 534 531 528 525
// expect 1: i32 522 519 516 513 510 507 504 501 498 495 492 489 486 483 480 477 474 471 468 465 462 459 456 453 450
// expect 1: i32 447 444 441 438 435 432 429 426 423 420 417 414 411 408 405 402 399 396 393 390 387 384

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void other_half(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x, rank = cluster_rank();
    tile[t] = 3 * in[64 * blockIdx.x + t];
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
    cluster_arrive_relaxed();
    cluster_wait();
    out[64 * blockIdx.x + t] = on_rank(tile, rank ^ 1)[63 - t];
    cluster_sync();
}
