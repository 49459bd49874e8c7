use dl::prelude::*;

fn labels() -> Weight<Nd<usize, Ix1>> {
    Weight::new(Nd::from([0_usize, 1]))
}

fn main() {}
