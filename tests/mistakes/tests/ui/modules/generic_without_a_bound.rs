use dl::prelude::*;

#[derive(Module)]
struct Scale<A> {
    weight: NdWeight<Ix1, A>,
}

fn main() {}
