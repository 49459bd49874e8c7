//! Leak detection: every value, tape, body and operation of a graph owns a token, and the ledger
//! counts the live tokens.

use dl::{Chunk, Data, Delta, Layer, Result, Trainable, Value};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::graph::Effort;
use super::kernels::{Stretch, Sum, Work};

#[derive(Default)]
pub(crate) struct Ledger {
    tokens: Mutex<Tokens>,
    /// The number of kernel evaluations.
    kernels: AtomicUsize,
}

#[derive(Default)]
struct Tokens {
    alive: HashSet<usize>,
    made: usize,
    released: usize,
    /// The number of releases of tokens that were not live.
    twice: usize,
}

impl Ledger {
    pub(crate) fn kernel_runs(&self) {
        self.kernels.fetch_add(1, SeqCst);
    }

    pub(crate) fn kernels(&self) -> usize {
        self.kernels.load(SeqCst)
    }

    pub(crate) fn made(&self) -> usize {
        self.tokens.lock().unwrap().made
    }

    /// Checks that every token has been released exactly once. Waits for kernels that were running
    /// when their pass was dropped.
    pub(crate) fn close(&self) -> std::result::Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let tokens = self.tokens.lock().unwrap();
            if tokens.alive.is_empty() || Instant::now() > deadline {
                let Tokens { alive, made, released, twice } = &*tokens;
                return match (alive.len(), twice) {
                    (0, 0) if made == released => Ok(()),
                    (left, twice) => Err(format!("of {made} tokens {left} leak, and {twice} were released twice")),
                };
            }
            drop(tokens);
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// A token in a ledger. A clone is another token.
pub(crate) struct Token {
    pub(crate) ledger: Arc<Ledger>,
    number: usize,
}

impl Token {
    pub(crate) fn new(ledger: &Arc<Ledger>) -> Token {
        let mut tokens = ledger.tokens.lock().unwrap();
        tokens.made += 1;
        let number = tokens.made;
        tokens.alive.insert(number);
        Token { ledger: ledger.clone(), number }
    }
}

impl Clone for Token {
    fn clone(&self) -> Self {
        Token::new(&self.ledger)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let mut tokens = self.ledger.tokens.lock().unwrap();
        tokens.released += 1;
        if !tokens.alive.remove(&self.number) {
            tokens.twice += 1;
        }
    }
}

/// A number. Its copies are counted.
#[derive(Clone)]
pub(crate) struct Counted {
    pub(crate) number: f64,
    pub(crate) token: Token,
}

impl Counted {
    pub(crate) fn new(number: f64, ledger: &Arc<Ledger>) -> Self {
        Counted { number, token: Token::new(ledger) }
    }

    /// Another number in the same ledger.
    pub(crate) fn with(&self, number: f64) -> Self {
        Counted::new(number, &self.token.ledger)
    }
}

/// The declared cost of a sum or a multiple.
const EFFORT: Effort = Effort { nanoseconds: 100.0, spins: 0 };

impl Data for Counted {
    type Delta = Counted;

    fn one(&self) -> Counted {
        self.with(1.0)
    }

    fn into_value(self) -> Value {
        Value::boxed(self)
    }
}

impl Delta for Counted {
    fn sum(mut terms: Vec<Layer<Counted>>) -> Layer<Counted> {
        if terms.len() == 1 { terms.remove(0) } else { Layer::apply(Sum { effort: EFFORT }, terms) }
    }

    fn scale(layer: &Layer<Counted>, factor: f64) -> Layer<Counted> {
        Layer::apply(Stretch { work: Work { effort: EFFORT, token: None }, factor }, (layer.clone(),))
    }

    fn squared_norm(&self) -> f64 {
        self.number * self.number
    }
}

impl Trainable for Counted {
    fn zeros_like(&self) -> Self {
        self.with(0.0)
    }

    fn update(
        &mut self,
        delta: &Counted,
        slots: &mut [Counted],
        rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut slots: Vec<&mut [f64]> = slots.iter_mut().map(|slot| std::slice::from_mut(&mut slot.number)).collect();
        rule(Chunk::F64 {
            values: std::slice::from_mut(&mut self.number),
            deltas: std::slice::from_ref(&delta.number),
            slots: &mut slots,
        })
    }
}
