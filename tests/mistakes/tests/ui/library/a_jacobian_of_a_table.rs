use dl::prelude::*;

fn jacobian(y: &NdLayer<Ix1>, table: &Weight<Table>) {
    drop(y.jacobian(table));
}

fn main() {}
