//! A step on a batch in parts, with batch normalization, dropout, a sparse table, and a tied weight.

use dl_core::parts::PartSum;
use dl_core::{Differentiable, Layer, Module, Numbers, Parts, Result, Visitor};
use dl_nd::{Nd, init, ops::*};
use dl_nn::{BatchNorm, Embedding, Linear};
use dl_optim::schedule::Linear as Warmup;
use dl_optim::{AdamW, OptimizerExt, Sgd};

struct Net {
    words: Embedding,
    hidden: Linear,
    norm: BatchNorm,
}

impl Module for Net {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.field("words", &self.words);
        visitor.field("hidden", &self.hidden);
        visitor.field("norm", &self.norm);
        visitor.field("tied", &self.hidden.weight);
    }
}

const WIDTH: usize = 24;
const PART: usize = 4;

impl Net {
    fn new() -> Result<Net> {
        let rng = &mut init::rng(3);
        Ok(Net {
            words: Embedding::new(50, WIDTH, rng)?,
            hidden: Linear::new(WIDTH, WIDTH, rng)?,
            norm: BatchNorm::new(WIDTH)?,
        })
    }

    /// `dropout` needs a seed unless it is 0.
    fn loss(&self, part: usize, dropout: f64) -> Layer<f32> {
        let ids: Vec<usize> = (0..PART).map(|i| (7 * part + i * i) % 50).collect();
        let hidden = self.norm.of(self.hidden.of(self.words.of(ids))).relu().dropout(dropout);
        // the weight of the hidden layer, a second time
        self.hidden.of(hidden).square().mean()
    }

    fn bits(&self) -> Vec<u32> {
        let bits = |numbers| match numbers {
            Numbers::F32(row) => row.into_iter().map(f32::to_bits).collect::<Vec<u32>>(),
            other => panic!("{other:?}"),
        };
        self.entries().iter().flat_map(|entry| bits(entry.numbers())).collect()
    }
}

/// Some steps in parts: the bits of all weights and buffers, and those of all losses.
fn trained(parts: usize, at_once: usize) -> Result<(Vec<u32>, Vec<u32>)> {
    let (net, mut losses) = (Net::new()?, Vec::new());
    let optimizer = AdamW::new(Warmup::new(0.001, 0.02, 4)).clip_norm(0.1).ema(0.9);
    for step in 0..5 {
        let step_losses = (0..parts).map(|part| net.loss(10 * step + part, 0.3));
        let taken = Parts::mean(step_losses).at_once(at_once).train(&optimizer).seed(step as u64).wait()?;
        losses.extend(taken.into_iter().map(f32::to_bits));
    }
    Ok((net.bits(), losses))
}

#[test]
fn bits_of_net_do_not_depend_on_threads_or_parts_at_once() -> Result<()> {
    for parts in [1, 3, 4] {
        let expected = trained(parts, 1)?;
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            for at_once in [1, 3] {
                assert!(pool.install(|| trained(parts, at_once))? == expected, "{parts} parts, {threads}, {at_once}");
            }
        }
    }
    Ok(())
}

/// Relative to the size of the largest number.
fn distance(ours: &[f64], exact: &[f64]) -> f64 {
    let largest = exact.iter().fold(1e-30, |most: f64, x| most.max(x.abs()));
    ours.iter().zip(exact).fold(0.0, |most: f64, (a, b)| most.max((a - b).abs())) / largest
}

fn wide(numbers: &Numbers) -> Vec<f64> {
    match numbers {
        Numbers::F32(row) => row.iter().map(|&x| x.into()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn gradients_and_statistics_are_those_of_plain_loop() -> Result<()> {
    const PARTS: usize = 6;
    let (net, twin) = (Net::new()?, Net::new()?);
    // the sums of a loop over the parts, in double precision; a sparse delta by row
    let mut sums: Vec<(String, Vec<f64>)> = Vec::new();
    let [mut mean, mut variance] = [vec![0.0; WIDTH], vec![0.0; WIDTH]];
    let dense = |delta: &dl_core::DeltaNumbers| {
        let mut all = vec![0.0; delta.shape.iter().product()];
        let numbers = wide(&delta.numbers);
        match &delta.rows {
            None => all = numbers,
            Some(rows) => {
                for (row, numbers) in rows.iter().zip(numbers.chunks(delta.shape[1])) {
                    all[row * delta.shape[1]..][..delta.shape[1]].copy_from_slice(numbers);
                }
            }
        }
        all
    };
    for part in 0..PARTS {
        let deltas = net.loss(part, 0.0).backward().wait()?.deltas(&net).wait()?;
        for (path, delta) in deltas {
            let delta: Vec<f64> = dense(&delta).into_iter().map(|d| d / PARTS as f64).collect();
            match sums.iter_mut().find(|(known, _)| *known == path) {
                Some((_, sum)) => sum.iter_mut().zip(delta).for_each(|(sum, d)| *sum += d),
                None => sums.push((path, delta)),
            }
        }
        // the running statistics after this part alone
        let alone = Net::new()?;
        alone.loss(part, 0.0).train(&Sgd::new(0.0)).wait()?;
        for (sum, path) in [(&mut mean, "norm.stats.mean"), (&mut variance, "norm.stats.variance")] {
            let new = wide(&alone.entry(path)?.numbers());
            sum.iter_mut().zip(new).for_each(|(sum, new)| *sum += new / PARTS as f64);
        }
    }
    let (_, effects) = Parts::mean((0..PARTS).map(|part| twin.loss(part, 0.0))).value_and_backward().wait()?;
    let deltas = effects.deltas(&twin).wait()?;
    assert_eq!(deltas.len(), sums.len());
    for ((path, delta), (other, exact)) in deltas.iter().zip(&sums) {
        assert_eq!(path, other);
        assert!(distance(&dense(delta), exact) < 2e-6, "{path}: {}", distance(&dense(delta), exact));
    }
    let table = &deltas.iter().find(|(path, _)| path == "words.weight").expect("it is used").1;
    assert!(table.rows.as_ref().is_some_and(|rows| rows.len() < 50 && rows.is_sorted()));
    effects.step(&Sgd::new(0.1)).wait()?;
    for (exact, path) in [(mean, "norm.stats.mean"), (variance, "norm.stats.variance")] {
        assert!(distance(&wide(&twin.entry(path)?.numbers()), &exact) < 1e-6, "{path}");
    }
    Ok(())
}

#[test]
fn sums_of_parts_travel_as_bytes() -> Result<()> {
    let (here, there) = (Net::new()?, Net::new()?);
    let sum = |net: &Net| Parts::sum((0..4).map(|part| net.loss(part, 0.0))).partial_sums().wait();
    let bytes = sum(&here)?.1[0].1.to_bytes(&here)?;
    assert!(sum(&there)?.1[0].1.to_bytes(&there)? == bytes);
    assert!(PartSum::from_bytes(&there, &bytes)?.to_bytes(&there)? == bytes);
    for end in (0..bytes.len()).step_by(97) {
        assert!(PartSum::from_bytes(&there, &bytes[..end]).is_err());
    }
    let other = Linear::<f32>::new(2, 2, &mut init::rng(1))?;
    assert!(
        PartSum::from_bytes(&other, &bytes).err().expect("an error").to_string().contains("no weight or buffer at")
    );
    assert!(sum(&here)?.1[0].1.to_bytes(&other).unwrap_err().to_string().contains("outside of this module"));
    let _: Nd<f32, _> = here.hidden.weight.value();
    Ok(())
}
