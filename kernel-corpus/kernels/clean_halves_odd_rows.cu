// Rows of 33 halves, one for each block: the words where rows meet belong to two
// blocks, the halves to one.
//
// launch: grid=5 block=33
// args: u16[165]=iota
// bug: none
// expect 0: u16 96 93 90 87 84 81 78 75 72 69 66 63 60 57 54 51 48 45 42 39 36 33 30 27 24 21 18 15 12 9 6 3 0 195
// expect 0: u16 192 189 186 183 180 177 174 171 168 165 162 159 156 153 150 147 144 141 138 135 132 129 126 123 120
// expect 0: u16 117 114 111 108 105 102 99 294 291 288 285 282 279 276 273 270 267 264 261 258 255 252 249 246 243
// expect 0: u16 240 237 234 231 228 225 222 219 216 213 210 207 204 201 198 393 390 387 384 381 378 375 372 369 366
// expect 0: u16 363 360 357 354 351 348 345 342 339 336 333 330 327 324 321 318 315 312 309 306 303 300 297 492 489
// expect 0: u16 486 483 480 477 474 471 468 465 462 459 456 453 450 447 444 441 438 435 432 429 426 423 420 417 414
// expect 0: u16 411 408 405 402 399 396

extern "C" __global__ void reverse(unsigned short* rows) {
    __shared__ unsigned short row[33];
    int t = threadIdx.x, i = blockIdx.x * 33 + t;
    row[t] = rows[i];
    __syncthreads();
    rows[i] = row[32 - t] * 3;
}
