use dl::prelude::*;

fn scores(h: &NdLayer, table: &Weight<Table>) -> NdLayer {
    h.matmul(table)
}

fn main() {}
