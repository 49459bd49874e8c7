use dl::prelude::*;

#[derive(Variables)]
struct Net {
    weight: Weight<f64>,
    #[variables(ignore)]
    width: usize,
}

#[derive(Variables)]
#[variables(name = Slopes)]
struct Line(Weight<f64>);

fn main() {}
