//! Training steps on a device that counts.

use crate::device::{ones, spent};
use dl_core::{Chunk, Differentiable, Do, Layer, Number, Optimizer, OptimizerState, Result, Weight};
use dl_nd::device::{Device, Dry};
use dl_nd::{MoveModule, Nd, NdLayer, NdWeight, ops::*};
use dl_optim::plugins::Plugin;
use dl_optim::schedule::Cosine;
use dl_optim::{
    Adadelta, Adagrad, Adam, AdamW, Groups, Lion, NAdam, OptimizerExt, RAdam, RmsProp, Sgd, plugins::ClipValue,
};
use std::borrow::Cow;
use std::sync::Arc;

/// A net of two weights on a device, and its loss.
fn net(device: &Arc<dyn Device>) -> ([NdWeight; 2], Layer<f32>) {
    let net = [Weight::new(Nd::full([8, 4], 0.5)), Weight::new(Nd::full([4, 2], 0.5))];
    net.move_to(device).unwrap();
    let loss = ones([16, 8], device).matmul(&net[0]).relu().matmul(&net[1]).square().mean();
    (net, loss)
}

#[test]
fn step_of_each_optimizer_is_one_launch_for_weights_with_one_rule() {
    let dry = Dry::new();
    let (net, loss) = net(&dry);
    let optimizers: Vec<Arc<dyn Optimizer>> = vec![
        Arc::new(Sgd::new(0.1)),
        Arc::new(Sgd::new(0.1).momentum(0.9).nesterov()),
        Arc::new(Adam::new(0.1).amsgrad()),
        Arc::new(AdamW::new(Cosine::new(0.1, 10)).weight_decay(0.1)),
        Arc::new(Adagrad::new(0.1)),
        Arc::new(Adadelta::new(1.0)),
        Arc::new(RmsProp::new(0.1).momentum(0.9).centered()),
        Arc::new(Lion::new(0.1).weight_decay(0.1)),
        Arc::new(NAdam::new(0.1).decoupled_weight_decay(0.1)),
        Arc::new(RAdam::new(0.1)),
        Arc::new(Adam::new(0.1).ema(0.9).weight_decay(0.1).clip_value(1.0)),
        Arc::new(Groups::new(Adam::new(0.1)).with([&net[0]], Sgd::new(0.1).momentum(0.9))),
    ];
    for optimizer in optimizers {
        for step in 1..=7 {
            let effects = loss.backward().wait().unwrap().evaluate().wait().unwrap();
            let taken = spent(&dry, || effects.step(&optimizer).wait());
            let rules = if optimizer.kind().contains("Groups") { 2 } else { 1 };
            assert_eq!(taken, [rules, 0, 0, 0], "step {step} of {}", optimizer.kind());
        }
    }
}

#[test]
fn norms_of_all_weights_are_one_wait() {
    let dry = Dry::new();
    let (_, loss) = net(&dry);
    let waits = |optimizer: Arc<dyn Optimizer>| spent(&dry, || loss.train(&optimizer).wait())[1..3].to_vec();
    assert_eq!(waits(Arc::new(Adam::new(0.1))), [1, 0], "the loss");
    assert_eq!(waits(Arc::new(Adam::new(0.1).clip_norm(1.0))), [2, 0]);
    assert_eq!(waits(Arc::new(Adam::new(0.1).refuse_non_finite())), [2, 0]);
    assert_eq!(waits(Arc::new(Groups::new(Sgd::new(0.1)).clip_norm(1.0).weight_decay(0.1))), [2, 0]);
}

/// An optimizer that knows slices only.
#[derive(Clone)]
struct OfSlices;

impl Optimizer for OfSlices {
    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        Ok(())
    }
}

/// A transformation that knows slices only.
#[derive(Clone)]
struct NoChange;

impl Plugin for NoChange {
    fn change<A: Number>(&self, _: &[A], _: &mut Cow<'_, [A]>) -> Result<()> {
        Ok(())
    }
}

/// Reads the elements of all deltas.
#[derive(Clone)]
struct Reader;

impl Optimizer for Reader {
    fn begin<'o>(&'o self, step: &dl_core::Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        step.each_delta(&mut |_, _| Ok(())).map(|()| None)
    }

    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        Ok(())
    }
}

#[test]
fn code_for_slices_is_refused_with_what_to_implement() {
    let dry = Dry::new();
    let (net, loss) = net(&dry);
    let host = Weight::new(1.0_f32);
    let loss = loss * &host;
    let refused = |optimizer: Arc<dyn Optimizer>, word: &str| {
        let error = loss.train(&optimizer).wait().unwrap_err();
        assert!(error.is_invalid() && !error.is_panic() && error.to_string().contains(word), "{error}");
        assert!(error.to_string().contains("move_to_host"), "{error}");
        assert!(error.place().is_some(), "{error}");
        assert_eq!(host.value(), 1.0);
    };
    refused(Arc::new(OfSlices), "implement `Optimizer::step_lazy`");
    refused(Arc::new(Sgd::new(0.1).plug(NoChange)), "NoChange has no formula");
    refused(Arc::new(Reader), "reads the elements");
    net.move_to_host().unwrap();
    let x = Nd::<f32, ndarray::Ix2>::full([16, 8], 1.0);
    x.matmul(&net[0]).sum().train(&OfSlices).wait().unwrap();
    x.matmul(&net[0]).sum().train(&Sgd::new(0.1).plug(NoChange).plug(ClipValue(1.0))).wait().unwrap();
}

#[test]
fn state_follows_its_weight_and_is_saved_on_the_host() {
    let dry = Dry::new();
    let w = Weight::new(Nd::<f32, ndarray::Ix2>::full([4, 4], 0.5));
    let adam = Adam::new(0.1);
    let named = [("w", (&w).into())];
    let loss = || w.square().sum();
    loss().train(&adam).wait().unwrap();
    w.move_to(&dry).unwrap();
    let step = || spent(&dry, || loss().train(&adam).wait());
    assert_eq!(step()[2], 2 * 64, "both means follow");
    assert_eq!(step()[2], 0);
    let state: OptimizerState = adam.state(&named).unwrap();
    let mean = state.slot::<Nd>("w", "exp_avg").unwrap();
    assert!(mean.device().is_none() && mean.shape() == [4, 4]);
    // loading puts it where the weight lies
    let loaded = Adam::new(0.1);
    assert_eq!(spent(&dry, || loaded.load_state(&state, &named))[2], 2 * 64);
    assert_eq!(spent(&dry, || loss().train(&loaded).wait())[2], 0);
    assert_eq!(loaded.state(&named).unwrap().number("steps"), Some(4.0));
    let mut wrong = state.clone();
    wrong.set_slot("w", "exp_avg", Nd::<f32, ndarray::Ix2>::full([2, 2], 0.0));
    assert!(loaded.load_state(&wrong, &named).unwrap_err().is_shape());
    // a weight that comes back takes its state along
    w.move_to_host().unwrap();
    loss().train(&adam).wait().unwrap();
}

#[test]
fn averages_and_snapshots_lie_beside_their_weights() {
    let dry = Dry::new();
    let w = Weight::new(Nd::<f32, ndarray::Ix2>::full([4, 4], 0.5));
    w.move_to(&dry).unwrap();
    let ema = Adam::new(0.1).ema(0.9);
    w.square().sum().train(&ema).wait().unwrap();
    assert!(ema.average(&w).unwrap().unwrap().device().is_some());
    let averaged = w.layer().predict().on(&ema.snapshot().unwrap()).wait().unwrap();
    assert!(averaged.device().is_some());
}

#[test]
fn tensors_of_a_module_are_read_and_written_where_they_lie() {
    use dl_core::{Module, Numbers};
    let dry = Dry::new();
    let net = [Weight::new(Nd::<f32, ndarray::Ix1>::full(3, 0.5))];
    net.move_to(&dry).unwrap();
    let entry = net.entry("0").unwrap();
    assert_eq!(entry.numbers(), Numbers::F32(vec![0.0; 3]), "a dry device forgets");
    dl_core::NewValue::set_all(vec![entry.check(&[3], Numbers::F32(vec![1.0; 3])).unwrap()]).unwrap();
    assert!(net[0].value().device().is_some());
}

/// Asks for the score of an early exit after each layer, and goes on while it is not negative.
async fn depth(x: NdLayer, net: NdWeight, layers: usize) -> Result<Layer<f32>> {
    let mut x = x;
    let mut total = Layer::constant(0.0);
    for _ in 0..layers {
        x = x.matmul(&net).tanh();
        let score: f32 = x.sum().extract().await?;
        if score < 0.0 {
            break;
        }
        total = total + score;
    }
    Ok(total)
}

#[test]
fn decisions_of_many_samples_share_their_waits() {
    let dry = Dry::new();
    let net: NdWeight = Weight::new(Nd::full([4, 4], 0.5));
    net.move_to(&dry).unwrap();
    let samples: Vec<Nd> = (0..64).map(|_| ones([1, 4], &dry)).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let run = || {
        let body = |x: &Nd| {
            let (x, net) = (x.layer(), net.clone());
            Layer::dynamic(move || depth(x.clone(), net.clone(), 8))
        };
        Do::predict(samples.iter().map(body).collect::<Vec<_>>()).wait()
    };
    let [_, waits, up, down] = pool.install(|| spent(&dry, run));
    assert_eq!((waits, up, down), (8, 0, 64 * 8 * 4), "64 samples with 8 decisions each");
}

#[test]
fn number_in_a_compiled_function_is_waited_for_by_its_call() {
    use dl_core::bang::{CompiledArgument, CompiledFunction};
    fn length(x: &NdLayer) -> Layer<f32> {
        static FUNCTION: CompiledFunction = CompiledFunction::new("length");
        let arguments = FUNCTION.arguments(|arguments| x.add_to(arguments));
        FUNCTION.call(arguments, || x.square().sum().sqrt() + 1.0)
    }
    let dry = Dry::new();
    let x = ones([2, 2], &dry).layer();
    for _ in 0..4 {
        let twice = length(&x) * 2.0;
        assert_eq!(twice.predict().wait().unwrap(), 2.0, "the device forgets: a sum of zeros");
        assert_eq!(spent(&dry, || twice.predict().wait())[1], 1);
    }
}
