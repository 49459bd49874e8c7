
// Copies a number to its place among others, which the host reads together.
typedef struct {
    ulong from, to, words;
} Collect;
DL_KERNEL dl_collect(DL_GLOBAL const uint *from, DL_GLOBAL uint *to, DL_TABLE) {
    DL_GLOBAL const Collect *c = DL_ARGUMENT(Collect);
    ulong word = DL_INDEX;
    if (word < c->words) to[c->to + word] = from[c->from + word];
}
