use dl::prelude::*;

#[derive(Module)]
union Number {
    small: f32,
    large: f64,
}

fn main() {}
