//! The value of a weight that stands for the weights of a module on another rank, and its deltas.

use crate::communication::{Communication, lock, rank_of};
use crate::message::Kind;
use crate::turn::{Asking, own_step};
use crate::uses::{Uses, UsesByModule, sum};
use dl_core::parts::Wire;
use dl_core::{At, Chunk, Data, Delta, Deltas, Error, Layer, Participant, Primitive, Result, Step, Trainable};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Stands for the weights of a placed module. A weight with this value is made where the owner makes
/// the module, so it has their place in the order of all weights.
#[derive(Clone)]
pub(crate) struct Elsewhere {
    pub(crate) communication: Arc<Communication>,
    pub(crate) module: u64,
}

/// The deltas of weights elsewhere: the calls that have them.
#[derive(Clone, Default)]
pub(crate) struct Token {
    pub(crate) uses: UsesByModule,
    /// Keeps the calls alive.
    pub(crate) calls: Vec<Arc<RemoteCall>>,
    /// The norms of the deltas by chunk, once they have been asked for.
    pub(crate) norms: Arc<OnceLock<Vec<f64>>>,
}

/// A call with values that the owner keeps until this is dropped.
pub(crate) struct RemoteCall {
    pub(crate) communication: Arc<Communication>,
    pub(crate) to: usize,
    pub(crate) id: u64,
}

impl Drop for RemoteCall {
    fn drop(&mut self) {
        self.communication.queue(self.to, Kind::Release, self.id, Vec::new());
    }
}

impl Data for Elsewhere {
    type Delta = Token;

    fn one(&self) -> Token {
        Token::default()
    }
}

impl Trainable for Elsewhere {
    fn zeros_like(&self) -> Self {
        self.clone()
    }

    /// Passes on the norms of the deltas, which the owner computes.
    fn update(&mut self, delta: &Token, _: &mut [Self], rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>) -> Result<()> {
        if delta.norms.get().is_none() {
            let own: Vec<&Uses> =
                delta.uses.iter().filter(|(module, _)| *module == self.module).map(|(_, uses)| uses).collect();
            let mut body = self.module.to_bytes();
            own.len().write(&mut body);
            own.iter().for_each(|uses| uses.write(&mut body));
            let norms = self.communication.request_blocking(rank_of(self.module), Kind::Norms, body)?;
            // Another thread may have set the same ones.
            let _ = delta.norms.set(norms);
        }
        let norms = delta.norms.get().into_iter().flatten();
        norms.into_iter().try_for_each(|&norm| Chunk::with_norm(norm, &mut *rule))
    }

    fn enlist(&self, delta: &Token, participants: &mut Vec<Arc<dyn Participant>>) -> bool {
        if delta.uses.is_empty() {
            return true; // it has only norms
        }
        let of_cluster = |participant: &Arc<dyn Participant>| {
            let step = participant.as_any()?.downcast_ref::<RemoteStep>()?;
            Arc::ptr_eq(&step.communication, &self.communication).then(|| lock(&step.tokens).push(delta.clone()))
        };
        if participants.iter().find_map(of_cluster).is_none() {
            let communication = self.communication.clone();
            participants.push(Arc::new(RemoteStep { communication, tokens: Mutex::new(vec![delta.clone()]) }));
        }
        true
    }
}

impl Data for Token {
    type Delta = Token;

    fn one(&self) -> Token {
        Token::default()
    }
}

impl Delta for Token {
    fn sum(mut terms: Vec<Layer<Token>>) -> Layer<Token> {
        if terms.len() == 1 { terms.swap_remove(0) } else { Layer::apply(Sum, terms) }
    }

    fn none() -> Layer<Token> {
        Layer::constant(Token::default())
    }

    fn scale(layer: &Layer<Token>, factor: f64) -> Layer<Token> {
        Layer::apply(Times(factor), (layer.clone(),))
    }

    fn squared_norm(&self) -> f64 {
        let mut all = 0.0;
        for (module, uses) in &self.uses {
            let Some(call) = self.calls.first() else { return f64::NAN };
            let body = (*module, vec![uses.clone()]).to_bytes();
            match call.communication.request_blocking::<Vec<f64>>(rank_of(*module), Kind::Norms, body) {
                Ok(norms) => all += norms.iter().map(|norm| norm * norm).sum::<f64>(),
                Err(_) => return f64::NAN, // which no norm is clipped to
            }
        }
        all
    }
}

/// The sum of tokens.
struct Sum;

impl Primitive for Sum {
    type Operands = Vec<Layer<Token>>;
    type Output = Token;

    fn name(&self) -> &'static str {
        "sum of calls"
    }

    fn value(&self, tokens: Vec<&Token>) -> Result<Token> {
        let uses = sum(tokens.iter().flat_map(|token| token.uses.iter().cloned()));
        let calls = tokens.iter().flat_map(|token| token.calls.iter().cloned()).collect();
        Ok(Token { uses, calls, norms: Arc::default() })
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        at.operands.iter().map(|_| None).collect()
    }
}

/// A multiple of a token.
struct Times(f64);

impl Primitive for Times {
    type Operands = (Layer<Token>,);
    type Output = Token;

    fn name(&self) -> &'static str {
        "multiple of calls"
    }

    fn value(&self, (token,): (&Token,)) -> Result<Token> {
        let times = |(module, uses): &(u64, Uses)| (*module, Uses::Times(self.0, Box::new(uses.clone())));
        let uses = token.uses.iter().map(times).collect();
        Ok(Token { uses, calls: token.calls.clone(), norms: Arc::default() })
    }

    fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
        (None,)
    }
}

/// The part of a step that other ranks take, for all modules of a cluster that the step changes.
struct RemoteStep {
    communication: Arc<Communication>,
    tokens: Mutex<Vec<Token>>,
}

/// What an owner needs to prepare a step: the number of steps before, the norms of all deltas of the
/// step if the optimizer has asked for them, and the uses of its modules.
pub(crate) type Preparation = (u64, Option<Vec<f64>>, UsesByModule);

impl Participant for RemoteStep {
    fn vote<'a>(&'a self, step: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>> {
        let tokens = lock(&self.tokens).clone();
        let mut by_owner: BTreeMap<usize, UsesByModule> = BTreeMap::new();
        for (module, uses) in sum(tokens.iter().flat_map(|token| token.uses.iter().cloned())) {
            by_owner.entry(rank_of(module)).or_default().push((module, uses));
        }
        if by_owner.contains_key(&self.communication.rank()) {
            return Err(Error::invalid(
                "another rank has called a module of this rank, which takes the step: take the step on all ranks, by `cluster.sum` or `cluster.mean`",
            ));
        }
        let mut norms = None;
        if tokens.iter().any(|token| token.norms.get().is_some()) {
            let all = norms.insert(Vec::new());
            step.each_norm(&mut |_, norm| {
                all.push(norm);
                Ok(())
            })?;
        }
        let (asking, refused) = self.communication.turn.ask(self.communication.rank());
        if let Some(step) = refused {
            self.communication.answer(step.from, step.id, Err(own_step()));
        }
        let mut agreed =
            Agreed { communication: &self.communication, _asking: asking, prepared: Vec::new(), decision: false };
        let ask = |(owner, uses): (usize, UsesByModule)| {
            let preparation: Preparation = (step.steps(), norms.clone(), uses);
            (owner, self.communication.start_blocking::<()>(owner, Kind::Prepare, preparation.to_bytes()))
        };
        let asked: Vec<_> = by_owner.into_iter().map(ask).collect();
        let mut first_error = None;
        for (owner, (id, answer)) in asked {
            match answer() {
                Ok(()) => agreed.prepared.push((owner, id)),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => Ok(Box::new(move || {
                // The guard as a whole moves into this function.
                let mut agreed = agreed;
                agreed.decision = true;
            })),
        }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// The owners that have prepared the step. They get the decision when this is dropped.
struct Agreed<'a> {
    communication: &'a Communication,
    _asking: Asking<'a>,
    /// The ranks, and the numbers of the requests.
    prepared: Vec<(usize, u64)>,
    decision: bool,
}

impl Drop for Agreed<'_> {
    fn drop(&mut self) {
        for &(owner, id) in &self.prepared {
            self.communication.queue(owner, Kind::Decision, id, vec![u8::from(self.decision)]);
        }
    }
}
