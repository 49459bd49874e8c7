use dl::prelude::*;

#[derive(Module)]
struct Net {
    seed: Buffer<Seed>,
}

fn main() {}
