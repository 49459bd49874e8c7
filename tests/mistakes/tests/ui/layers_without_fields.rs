use dl::prelude::*;

#[derive(Clone, Layers)]
struct Nothing;

fn main() {}
