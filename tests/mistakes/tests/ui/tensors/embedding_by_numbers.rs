use dl::prelude::*;

fn vectors(table: &Weight<Table>, ids: &NdLayer<Ix1>) -> NdLayer {
    table.embedding(ids)
}

fn main() {}
