use dl::nn::{DecoderBlock, Embedding, Generation, Linear, Past, Sampling};

fn main() -> dl::Result<()> {
    let rng = &mut dl::nd::init::rng(1);
    let words = Embedding::<f32>::new(10, 16, rng)?;
    let block = DecoderBlock::new(16, 4, 2, 32, rng)?;
    let output = Linear::without_bias(16, 10, rng)?;
    let next = |past: &Past| output.of(block.of_cached(words.of(past.tokens()), past.layer(0)));
    let text = Generation::new(next, vec![vec![1, 2, 3]], 64).sampling(Sampling::greedy()).tokens(4);
    for token in text.first() {
        println!("{}", token?);
    }
    Ok(())
}
