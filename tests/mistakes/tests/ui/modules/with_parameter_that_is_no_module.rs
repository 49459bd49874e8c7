use dl::prelude::*;

#[derive(Module)]
struct Twice<M> {
    first: M,
    second: M,
}

struct Kind;

fn main() {
    Twice { first: Kind, second: Kind }.weights();
}
