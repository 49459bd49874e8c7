use dl::prelude::*;

enum Kind {
    Small,
    Large,
}

#[derive(Module)]
struct Net {
    weight: Weight<f64>,
    kind: Kind,
    table: Nd,
}

fn main() {}
