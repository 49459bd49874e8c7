use dl::prelude::*;

fn twice(x: impl NdExpression) -> NdLayer {
    x.layer() * 2.0
}

fn call() -> NdLayer {
    twice("a")
}

fn main() {}
