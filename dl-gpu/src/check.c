
// The first of the indices that is not below a number: its position plus 1, or 0, and its value.
// One group looks at all of them.
typedef struct {
    Shape shape;
    Place at;
    ulong below, except, excepts, slot;
} Check;
DL_KERNEL dl_check(DL_GLOBAL T *at, DL_GLOBAL ulong *found, DL_TABLE) {
    DL_GLOBAL const Check *check = DL_ARGUMENT(Check);
    DL_LOCAL ulong firsts[DL_GROUP];
    ulong lane = DL_LANE, first = check->shape.len;
    for (ulong i = lane; i < check->shape.len && first == check->shape.len; i += DL_GROUP) {
        ulong index = (ulong)dl_load(at, check->at.format, dl_at(&check->shape, &check->at, i));
        if (index >= check->below && !(check->excepts && index == check->except)) first = i;
    }
    firsts[lane] = first;
    DL_BARRIER;
    if (lane > 0) return;
    for (int other = 1; other < DL_GROUP; ++other) first = min(first, firsts[other]);
    int fails = first < check->shape.len;
    found[check->slot] = fails ? first + 1 : 0;
    found[check->slot + 1] = fails ? (ulong)dl_load(at, check->at.format, dl_at(&check->shape, &check->at, first)) : 0;
}
