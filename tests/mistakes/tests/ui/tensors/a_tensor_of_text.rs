use dl::prelude::*;

fn words() -> Nd<&'static str, Ix1> {
    Nd::from(["a", "b"])
}

fn main() {}
