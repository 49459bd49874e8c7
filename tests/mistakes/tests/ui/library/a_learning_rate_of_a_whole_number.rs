use dl::prelude::*;

fn optimizer() -> Sgd {
    Sgd::new(1)
}

fn main() {}
