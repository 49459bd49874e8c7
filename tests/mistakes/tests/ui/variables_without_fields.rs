use dl::prelude::*;

#[derive(Variables)]
struct Nothing;

fn main() {}
