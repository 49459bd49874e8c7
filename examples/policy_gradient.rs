//! A policy gradient: an agent learns to balance a pole on a cart (REINFORCE with a baseline:
//! Williams, 1992).
//!
//! ```sh
//! cargo run --release --example policy_gradient --features train            # --seed --updates --quick
//! ```
//!
//! The policy network gives the probability of a push to the right; the `if` of `episode` extracts
//! it and samples an action. The graph of an episode is built while it is played. The
//! log-likelihoods of the actions are layers, and the backward pass goes through them only. The
//! baseline is a second network's estimate of the return, extracted with `!`, so no gradient flows
//! through it into the policy.
//!
//! The dynamics are those of Barto, Sutton and Anderson (1983) with the constants of Gym's
//! `CartPole-v1`: an episode ends when the pole leans by more than 12°, when the cart is 2.4 from
//! the centre, or after 500 steps; each step has a reward of 1. At the end a hundred new episodes
//! are played. Their mean return must be at least 475, the value at which Gym calls the problem
//! solved. It is 497.5, 500.0 and 499.9 for the seeds 1, 2, 3, and about 22 for an untrained agent.

use clap::Parser;
use dl::nd::init;
use dl::nn::Linear;
use dl::prelude::*;
use dl::train::{Outcome, Trainer};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

const HIDDEN: usize = 32;
/// Episodes per update.
const EPISODES: u64 = 8;
const MAX_STEPS: usize = 500;
/// The discount factor per step.
const DISCOUNT: f32 = 0.99;

#[derive(Parser)]
struct Args {
    /// Seed of the initial weights, the initial states and the sampled actions.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// The number of updates, of eight episodes each.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    updates: u64,

    /// A few updates and short episodes, for a smoke test.
    #[arg(long)]
    quick: bool,
}

/// The state of cart and pole, in metres, radians and seconds.
#[derive(Clone, Copy)]
struct CartPole {
    position: f32,
    velocity: f32,
    angle: f32,
    turning: f32,
}

impl CartPole {
    fn new(rng: &mut ChaCha8Rng) -> Self {
        let [position, velocity, angle, turning] = std::array::from_fn(|_| rng.random_range(-0.05..0.05));
        CartPole { position, velocity, angle, turning }
    }

    /// The state 0.02 s later under this force, by Euler's method, as in Gym.
    fn pushed(self, force: f32) -> Self {
        const GRAVITY: f32 = 9.8;
        const CART: f32 = 1.0;
        const POLE: f32 = 0.1;
        /// Half the length of the pole.
        const LENGTH: f32 = 0.5;
        const TIME: f32 = 0.02;
        let (sin, cos) = self.angle.sin_cos();
        let pull = (force + POLE * LENGTH * self.turning * self.turning * sin) / (CART + POLE);
        let turned = (GRAVITY * sin - cos * pull) / (LENGTH * (4.0 / 3.0 - POLE * cos * cos / (CART + POLE)));
        let moved = pull - POLE * LENGTH * turned * cos / (CART + POLE);
        CartPole {
            position: self.position + TIME * self.velocity,
            velocity: self.velocity + TIME * moved,
            angle: self.angle + TIME * self.turning,
            turning: self.turning + TIME * turned,
        }
    }

    fn is_upright(self) -> bool {
        self.position.abs() <= 2.4 && self.angle.abs() <= 12.0_f32.to_radians()
    }

    fn numbers(self) -> [f32; 4] {
        [self.position, self.velocity, self.angle, self.turning]
    }
}

/// `[states, 4] → [states, 1]`.
#[derive(Clone, Module)]
struct Net {
    hidden: Linear,
    output: Linear,
}

impl Net {
    fn new(rng: &mut ChaCha8Rng) -> dl::Result<Self> {
        Ok(Net { hidden: Linear::new(4, HIDDEN, rng)?, output: Linear::new(HIDDEN, 1, rng)? })
    }

    fn of(&self, states: impl NdExpression) -> NdLayer {
        self.output.of(self.hidden.of(states).tanh())
    }
}

#[derive(Clone, Module)]
struct Agent {
    /// The logit of a push to the right.
    policy: Net,
    /// The estimated return of a state, relative to the largest possible.
    value: Net,
    /// The mean return of the episodes of the last update.
    lately: Buffer<f32>,
}

/// The states of an episode, and the log-likelihood of each action.
#[derive(Clone)]
struct Episode {
    states: Vec<[f32; 4]>,
    likelihoods: Vec<Layer<f32>>,
}

impl Agent {
    fn new(rng: &mut ChaCha8Rng) -> dl::Result<Self> {
        Ok(Agent { policy: Net::new(rng)?, value: Net::new(rng)?, lately: Buffer::new(0.0) })
    }

    /// Plays an episode of at most `longest` steps.
    #[differentiable]
    fn episode(&self, longest: usize, seed: u64) -> Do<Episode> {
        let mut rng = init::rng(seed);
        let mut cart = CartPole::new(&mut rng);
        let mut episode = Episode { states: Vec::new(), likelihoods: Vec::new() };
        while cart.is_upright() && episode.states.len() < longest {
            let state = Nd::from([cart.numbers()]);
            let to_the_right = self.policy.of(state).at([0, 0]);
            episode.states.push(cart.numbers());
            if rng.random::<f32>() < !to_the_right.sigmoid() {
                cart = cart.pushed(10.0);
                episode.likelihoods.push(-(-to_the_right).softplus()); // ln sigmoid(x)
            } else {
                cart = cart.pushed(-10.0);
                episode.likelihoods.push(-to_the_right.softplus()); // ln (1 - sigmoid(x))
            }
        }
        Do::now(episode)
    }

    /// The policy-gradient loss, weighted by the advantage of each action, plus the squared error
    /// of the value estimates.
    #[differentiable]
    fn loss(&self, longest: usize, seeds: &[u64]) -> Layer<f32> {
        let episodes: Vec<_> = seeds.iter().map(|&seed| self.episode(longest, seed)).collect();
        let episodes = !episodes; // extracts all episodes, in parallel
        let steps: usize = episodes.iter().map(|episode| episode.states.len()).sum();
        let mut loss = Layer::constant(0.0);
        for Episode { states, likelihoods } in episodes {
            let value = self.value.of(Nd::from_vec([states.len(), 4], states.concat())?).flatten();
            let expected = !value;
            // Bootstrap the return of a truncated episode with the value estimate.
            let mut worth = if states.len() == longest { expected[longest - 1] } else { 0.0 };
            let mut returns = vec![0.0; states.len()];
            for step in (0..states.len()).rev() {
                worth = (1.0 - DISCOUNT) + DISCOUNT * worth;
                returns[step] = worth;
                loss = loss - (worth - expected[step]) * likelihoods[step];
            }
            loss = loss + value.mse_with(Nd::from(returns), Sum);
        }
        let lately = Layer::constant(steps as f32 / seeds.len() as f32);
        (loss / steps as f32).updating(&self.lately, lately)
    }

    /// The mean return of new episodes.
    fn mean_return(&self, longest: usize, seeds: impl Iterator<Item = u64>) -> dl::Result<f64> {
        let episodes = seeds.map(|seed| self.episode(longest, seed).map(|episode| episode.states.len() as f64));
        let returns = Do::join(episodes).wait()?;
        Ok(returns.iter().sum::<f64>() / returns.len() as f64)
    }
}

fn main() -> dl::Result<()> {
    let Args { seed, updates, quick } = Args::parse();
    let (updates, longest) = if quick { (20, 60) } else { (updates, MAX_STEPS) };
    let agent = Agent::new(&mut init::rng(seed))?;
    let fresh = || (0..100).map(|number| (seed << 40) + number);
    let before = agent.mean_return(longest, fresh())?;
    println!("mean return before: {before:.1}");

    let batches = |update: u64| {
        let first = (seed << 40) + (1 << 20) + update * EPISODES;
        Ok([Ok((first..first + EPISODES).collect::<Vec<_>>())])
    };
    let optimizer = Adam::new(0.01).clip_norm(1.0);
    let Outcome { epochs, .. } = Trainer::new(&optimizer, updates)
        .validate(|| Ok([("return", agent.lately.value())]))
        .run(batches, |seeds| agent.loss(longest, &seeds))?;
    for record in epochs.iter().filter(|record| (record.epoch + 1) % 10 == 0) {
        println!("update {:3}  {record}", record.epoch + 1);
    }

    let after = agent.mean_return(longest, fresh())?;
    println!("mean_return={after:.1}");
    let least = if quick { 1.5 * before } else { 475.0 };
    assert!(after >= least, "the agent has learned less than it should: {after:.1} is below {least:.1}");
    Ok(())
}
