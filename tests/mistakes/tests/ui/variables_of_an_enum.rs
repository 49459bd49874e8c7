use dl::prelude::*;

#[derive(Variables)]
enum Net {
    One(Weight<f64>),
}

fn main() {}
