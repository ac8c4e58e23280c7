// Arrives at the barrier of the cluster, does work of its own, then waits and reads the other
// block's tile.
//
// arch: compute_90a
// launch: grid=4 block=64
// args: i32[256]=iota i32[256]=zeros
// bug: none
// expect 1: i32 409 414 419 424 429 434 439 444 449 454 459 464 469 474 479 484 489 494 499 504 509 514 519 524 529
// expect 1: i32 534 539 544 549 554 559 564 569 574 579 584 589 594 599 604 609 614 619 624 629 634 639 644 649 654
// expect 1: i32 659 664 669 674 679 684 689 630 571 512 453 394 335 276 729 734 739 744 749 754 759 764 769 774 779
// expect 1: i32 784 789 794 799 804 809 814 819 824 829 834 839 844 849 854 859 864 869 874 879 884 889 894 899 904
// expect 1: i32 909 914 919 924 929 934 939 944 949 954 959 964 969 974 979 984 989 994 999 1004 1009 950 891 832
// expect 1: i32 773 714 655 596 1817 1822 1827 1832 1837 1842 1847 1852 1857 1862 1867 1872 1877 1882 1887 1892 1897
// expect 1: i32 1902 1907 1912 1917 1922 1927 1932 1937 1942 1947 1952 1957 1962 1967 1972 1977 1982 1987 1992 1997
// expect 1: i32 2002 2007 2012 2017 2022 2027 2032 2037 2042 2047 2052 2057 2062 2067 2072 2077 2082 2087 2092 2097
// expect 1: i32 2038 1979 1920 1861 1802 1743 1684 2137 2142 2147 2152 2157 2162 2167 2172 2177 2182 2187 2192 2197
// expect 1: i32 2202 2207 2212 2217 2222 2227 2232 2237 2242 2247 2252 2257 2262 2267 2272 2277 2282 2287 2292 2297
// expect 1: i32 2302 2307 2312 2317 2322 2327 2332 2337 2342 2347 2352 2357 2362 2367 2372 2377 2382 2387 2392 2397
// expect 1: i32 2402 2407 2412 2417 2358 2299 2240 2181 2122 2063 2004

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void combine(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x, rank = cluster_rank();
    tile[t] = 0;
    cluster_sync();
    tile[t] = 3 * in[64 * blockIdx.x + t];
    cluster_arrive();
    int own = 0;  // work that needs no other block
    for (int i = 0; i < 8; i++) own += in[64 * blockIdx.x + (t + i) % 64];
    cluster_wait();
    int other = on_rank(tile, rank ^ 1)[63 - t];
    cluster_arrive();  // the other block may end
    out[64 * blockIdx.x + t] = own + other;
    cluster_wait();
}
