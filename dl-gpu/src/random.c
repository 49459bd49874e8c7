
// Dropout by ChaCha with 8 rounds: element i gets word i modulo 16 of block i / 16, and becomes 0
// if that is below a number. A thread draws a block.
typedef struct {
    ulong of, to, len, below;
    uint key[8];
    T scale, unused;
} Dropout;
#define TURNED(x, by) (((x) << by) | ((x) >> (32 - by)))
#define QUARTER(a, b, c, d) \
    w[a] += w[b]; w[d] = TURNED(w[d] ^ w[a], 16); \
    w[c] += w[d]; w[b] = TURNED(w[b] ^ w[c], 12); \
    w[a] += w[b]; w[d] = TURNED(w[d] ^ w[a], 8); \
    w[c] += w[d]; w[b] = TURNED(w[b] ^ w[c], 7);
DL_KERNEL dl_dropout(DL_GLOBAL const T *of, DL_GLOBAL T *to, DL_TABLE) {
    Dropout d = *DL_ARGUMENT(Dropout);
    ulong block = DL_INDEX, first = block * 16;
    if (first >= d.len) return;
    uint from[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, w[16];
    for (int word = 0; word < 8; ++word) from[4 + word] = d.key[word];
    from[12] = (uint)block;
    from[13] = (uint)(block >> 32);
    from[14] = from[15] = 0;
    for (int word = 0; word < 16; ++word) w[word] = from[word];
    for (int rounds = 0; rounds < 4; ++rounds) {
        QUARTER(0, 4, 8, 12) QUARTER(1, 5, 9, 13) QUARTER(2, 6, 10, 14) QUARTER(3, 7, 11, 15)
        QUARTER(0, 5, 10, 15) QUARTER(1, 6, 11, 12) QUARTER(2, 7, 8, 13) QUARTER(3, 4, 9, 14)
    }
    for (ulong at = first; at < min(first + 16, d.len); ++at) {
        ulong drawn = w[at - first] + from[at - first];
        to[d.to + at] = drawn < d.below ? ZERO : dl_stored(of[d.of + at] * d.scale);
    }
}
