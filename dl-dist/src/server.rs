//! The modules that are placed on this rank, and what other ranks ask of them.
//!
//! Requests are futures on one thread (`requests.rs`), and hold nothing while they wait for other
//! ranks. A step that another rank takes has a thread of its own: it waits for the decision while it
//! holds the locks of weights.

use crate::communication::{Communication, Receiver, lock, start_thread};
use crate::elsewhere::{Elsewhere, Preparation, Token};
use crate::function::{Evaluated, Open, function};
use crate::message::{Header, Kind};
use crate::remote_step::{Asked, Deciding};
use crate::requests::Requests;
use crate::turn::Undecided;
use crate::uses::{Uses, UsesByModule, sum};
use dl_core::parts::{PartSum, PassContext, Wire};
use dl_core::{DeltaNumbers, Do, Entry, Error, Numbers, Optimizer, Result, SideEffects};
use futures::FutureExt;
use futures::future::{AbortHandle, BoxFuture, abortable};
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What this rank does for others. Clones are the same server.
#[derive(Clone)]
pub(crate) struct Server(Arc<Shared>);

struct Shared {
    communication: Arc<Communication>,
    placed: Mutex<Placements>,
    calls: Mutex<Calls>,
    gate: Mutex<Gate>,
    opened: Condvar,
    requests: Mutex<Option<Requests>>,
    /// The thread for steps of other ranks.
    steps: Mutex<Option<(Sender<Job>, JoinHandle<()>)>>,
    optimizer: Mutex<Option<Arc<dyn Optimizer>>>,
}

/// The modules of this rank.
#[derive(Default)]
struct Placements {
    modules: HashMap<u64, Arc<Placement>>,
    /// The ids of all weights and buffers of these modules.
    entries: HashSet<u64>,
}

/// A module of this rank.
pub(crate) struct Placement {
    pub(crate) module: Arc<dyn Any + Send + Sync>,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Default)]
struct Calls {
    /// The requests that are being computed.
    running: HashMap<u64, (usize, AbortHandle)>,
    /// The calls with values that are kept.
    open: HashMap<u64, OpenCall>,
}

/// A call with values that are kept for a backward.
struct OpenCall {
    from: usize,
    tape: Arc<dyn Open>,
    /// The deltas of the weights by the request that has computed them, and the calls of other ranks
    /// that they need.
    deltas: HashMap<u64, (PartSum, Vec<Token>)>,
}

/// Holds back calls while weights change, so that a call that was made after a step sees its
/// weights.
#[derive(Default)]
struct Gate {
    /// How many decided steps of other ranks are being taken.
    steps: usize,
    /// The number of the exchange of votes in which this rank takes part.
    votes: Option<u64>,
    held: Vec<(usize, Header, Vec<u8>)>,
}

impl Gate {
    /// Whether calls of a rank are held back. A rank that has not voted yet may wait for its call.
    fn holds(&self, from: usize, communication: &Communication) -> bool {
        self.steps > 0 || self.votes.is_some_and(|votes| communication.last_exchange(from) >= votes)
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Closes the gate while it exists.
pub(crate) struct GateClosed(Server);

impl Drop for GateClosed {
    fn drop(&mut self) {
        self.0.change_gate(|gate| gate.votes = None);
    }
}

impl Server {
    pub(crate) fn new(communication: Arc<Communication>) -> Server {
        Server(Arc::new(Shared {
            communication,
            placed: Mutex::default(),
            calls: Mutex::default(),
            gate: Mutex::default(),
            opened: Condvar::new(),
            requests: Mutex::default(),
            steps: Mutex::default(),
            optimizer: Mutex::default(),
        }))
    }

    pub(crate) fn add(&self, number: u64, placement: Placement) {
        let mut placed = lock(&self.0.placed);
        placed.entries.extend(placement.entries.iter().map(Entry::id));
        placed.modules.insert(number, Arc::new(placement));
    }

    /// Whether a weight or a buffer is that of a module of this rank.
    pub(crate) fn has_entry(&self, id: u64) -> bool {
        lock(&self.0.placed).entries.contains(&id)
    }

    /// The numbers of the modules of this rank.
    pub(crate) fn modules(&self) -> Vec<u64> {
        let mut modules: Vec<u64> = lock(&self.0.placed).modules.keys().copied().collect();
        modules.sort_unstable();
        modules
    }

    pub(crate) fn module(&self, number: u64) -> Result<Arc<Placement>> {
        let module = lock(&self.0.placed).modules.get(&number).cloned();
        module.ok_or_else(|| Error::invalid("there is no such module on this rank"))
    }

    /// The optimizer of the modules of this rank in steps that other ranks take.
    pub(crate) fn set_optimizer(&self, optimizer: Arc<dyn Optimizer>) {
        *lock(&self.0.optimizer) = Some(optimizer);
    }

    /// How many calls are kept for a backward.
    pub(crate) fn open_calls(&self) -> usize {
        lock(&self.0.calls).open.len()
    }

    /// Holds back calls of ranks that have voted in this exchange, until the returned guard is dropped.
    pub(crate) fn close_gate(&self, votes: u64) -> GateClosed {
        lock(&self.0.gate).votes = Some(votes);
        GateClosed(self.clone())
    }

    /// Starts the calls that are not held back any more.
    fn change_gate(&self, change: impl FnOnce(&mut Gate)) {
        let mut gate = lock(&self.0.gate);
        change(&mut gate);
        let held = std::mem::take(&mut gate.held).into_iter();
        let (still, held): (_, Vec<_>) = held.partition(|(from, ..)| gate.holds(*from, &self.0.communication));
        gate.held = still;
        drop(gate);
        self.0.opened.notify_all();
        held.into_iter().for_each(|(from, header, body)| self.start(from, header, body));
    }

    /// Waits until no step that another rank has decided is being taken.
    pub(crate) fn settle(&self) {
        let gate = lock(&self.0.gate);
        drop(self.0.opened.wait_while(gate, |gate| gate.steps > 0).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for the threads that work for other ranks.
    pub(crate) fn end(&self) {
        drop(self.0.communication.turn.take(|_| true)); // it is refused
        let thread = lock(&self.0.steps).take();
        if let Some((jobs, thread)) = thread {
            drop(jobs);
            // A panic of the thread has been printed; there is nothing else to do with it.
            let _ = thread.join();
        }
        let requests = lock(&self.0.requests).take();
        requests.into_iter().for_each(Requests::end);
        let calls = std::mem::take(&mut *lock(&self.0.calls));
        drop(calls);
    }

    /// Starts a request.
    fn start(&self, from: usize, header: Header, body: Vec<u8>) {
        let this = self.clone();
        match header.kind {
            Kind::Call => self.spawn(from, header.id, async move {
                let evaluated = this.call(&body).await?;
                let open = evaluated.open.map(|tape| OpenCall { from, tape, deltas: HashMap::new() });
                Ok((evaluated.value, open))
            }),
            Kind::Back => self.spawn(from, header.id, async move {
                let (call, delta) = Wire::from_bytes(&body)?;
                Ok((this.back(call, header.id, delta).await?.to_bytes().into(), None))
            }),
            Kind::Norms => self.spawn(from, header.id, async move {
                let (module, uses) = <(u64, Vec<Uses>)>::from_bytes(&body)?;
                let placement = this.module(module)?;
                let of_module = |id| placement.entries.iter().any(|entry| entry.id() == id);
                let all = sum(uses.into_iter().map(|uses| (module, uses)));
                let mut norms = Vec::new();
                for (_, uses) in &all {
                    norms.extend(this.deltas_of(uses).await?.norms(of_module)?);
                }
                Ok((norms.to_bytes().into(), None))
            }),
            Kind::Read => self.spawn(from, header.id, async move {
                let (module, path) = <(u64, String)>::from_bytes(&body)?;
                let placement = this.module(module)?;
                let entry = placement.entries.iter().find(|entry| entry.path() == path);
                let entry = entry.ok_or_else(|| Error::invalid(format!("the module has no `{path}`")))?;
                Ok((entry.numbers().to_bytes().into(), None))
            }),
            _ => {}
        }
    }

    /// Runs a request, and answers it unless it is released before.
    fn spawn(
        &self,
        from: usize,
        id: u64,
        request: impl Future<Output = Result<(Box<[u8]>, Option<OpenCall>)>> + Send + 'static,
    ) {
        if let Err(error) = self.start_requests() {
            return self.0.communication.answer(from, id, Err(error));
        }
        let this = self.clone();
        let (run, handle) = abortable(async move {
            let ended = AssertUnwindSafe(request).catch_unwind().await;
            let ended = ended.unwrap_or_else(|payload| Err(Error::panic(payload)));
            let mut calls = lock(&this.0.calls);
            if calls.running.remove(&id).is_none() {
                drop(calls); // the values are dropped without the lock
                return;
            }
            let (answer, open) = ended.map_or_else(|error| (Err(error), None), |(value, open)| (Ok(value), open));
            if let Some(open) = open {
                calls.open.insert(id, open);
            }
            drop(calls);
            this.0.communication.answer(from, id, answer.as_ref().map(|value| &**value).map_err(Error::clone));
        });
        lock(&self.0.calls).running.insert(id, (from, handle));
        if let Some(requests) = &*lock(&self.0.requests) {
            requests.run(async {
                // An aborted request is not answered.
                let _ = run.await;
            });
        }
    }

    fn start_requests(&self) -> Result<()> {
        let mut requests = lock(&self.0.requests);
        if requests.is_none() {
            *requests = Some(Requests::start(self.0.communication.rank())?);
        }
        Ok(())
    }

    async fn call(&self, mut body: &[u8]) -> Result<Evaluated> {
        let (module, name, context) = <(u64, String, PassContext)>::read(&mut body)?;
        let placement = self.module(module)?;
        (function(&name)?.evaluate)(placement, context, body)?.await
    }

    /// The derivative with respect to the argument of a call. The deltas of the weights are kept.
    async fn back(&self, call: u64, back: u64, delta: DeltaNumbers) -> Result<(DeltaNumbers, UsesByModule)> {
        let tape = lock(&self.0.calls).open.get(&call).map(|open| open.tape.clone());
        let (dx, mut deltas) = tape.ok_or_else(released)?.back(delta)?.await?;
        let tokens = deltas.take::<Elsewhere>();
        let uses = sum(tokens.iter().flat_map(|token| token.uses.iter().cloned()));
        match lock(&self.0.calls).open.get_mut(&call) {
            Some(open) => drop(open.deltas.insert(back, (deltas, tokens))),
            None => return Err(released()),
        }
        Ok((dx, uses))
    }

    /// The deltas of weights of this rank that these uses have.
    pub(crate) fn deltas_of<'a>(&'a self, uses: &'a Uses) -> BoxFuture<'a, Result<PartSum>> {
        Box::pin(async move {
            match uses {
                Uses::Call { call, back } => {
                    let calls = lock(&self.0.calls);
                    let deltas = calls.open.get(call).and_then(|open| open.deltas.get(back));
                    deltas.map(|(deltas, _)| deltas.clone()).ok_or_else(released)
                }
                Uses::Times(factor, uses) => self.deltas_of(uses).await?.times(*factor).await,
                Uses::Sum(terms) => {
                    let mut all = Vec::with_capacity(terms.len());
                    for uses in terms {
                        all.push(self.deltas_of(uses).await?);
                    }
                    PartSum::sum_of(all).await
                }
            }
        })
    }

    /// The deltas of all weights of this rank that these uses have.
    pub(crate) fn deltas_of_all(&self, uses: UsesByModule) -> Do<PartSum> {
        let this = self.clone();
        Do::from_fn(move || {
            let (this, uses) = (this.clone(), uses.clone());
            async move {
                let mut all = Vec::with_capacity(uses.len());
                for (_, uses) in &uses {
                    all.push(this.deltas_of(uses).await?);
                }
                PartSum::sum_of(all).await
            }
        })
    }

    /// Prepares a step of another rank, on the thread for steps.
    fn prepare(&self, from: usize, id: u64, body: &[u8]) {
        let (decide, decision) = channel();
        let answered = Arc::new(AtomicBool::new(false));
        let undecided = Undecided { id, from, decide, answered: answered.clone() };
        let turn = &self.0.communication.turn;
        let begun = Preparation::from_bytes(body)
            .and_then(|preparation| turn.begin(self.0.communication.rank(), undecided).map(|()| preparation));
        let preparation = match begun {
            Ok(preparation) => preparation,
            Err(error) => return self.0.communication.answer(from, id, Err(error)),
        };
        let this = self.clone();
        let job = move || {
            let communication = this.0.communication.clone();
            let answer = move |vote: Result<()>| communication.answer(from, id, vote.map(|()| &[][..]));
            let asked = Arc::new(Deciding::new(answer, answered, decision));
            let ended = catch_unwind(AssertUnwindSafe(|| this.step(preparation, &asked)));
            if let Err(error) = ended.unwrap_or_else(|payload| Err(Error::panic(payload))) {
                // Must precede the answer: after it the caller may begin another step.
                drop(this.0.communication.turn.take(|step| step.id == id));
                asked.refuse(&error);
            }
            if asked.was_agreed() {
                this.change_gate(|gate| gate.steps -= 1);
            }
        };
        if let Err(error) = self.on_thread_for_steps(Box::new(job)) {
            drop(turn.take(|step| step.id == id));
            self.0.communication.answer(from, id, Err(error));
        }
    }

    fn on_thread_for_steps(&self, job: Job) -> Result<()> {
        let mut steps = lock(&self.0.steps);
        let (jobs, _) = match &mut *steps {
            Some(known) => known,
            none => {
                let (sender, jobs) = channel::<Job>();
                let run = move || jobs.into_iter().for_each(|job| job());
                let name = format!("dl-steps-{}", self.0.communication.rank());
                none.insert((sender, start_thread(name, run)?))
            }
        };
        jobs.send(job).map_err(|_| Error::invalid("the thread for steps of other ranks has ended"))
    }

    /// Takes a step of another rank, if that rank decides so.
    fn step(&self, (steps, norms, uses): Preparation, asked: &Arc<Deciding>) -> Result<()> {
        let optimizer = lock(&self.0.optimizer).clone().ok_or_else(|| {
            Error::invalid(
                "there is no optimizer for the modules that are placed here: call `cluster.set_optimizer` on all ranks",
            )
        })?;
        let any_weight = uses.first().map(|(module, _)| self.module(*module)).transpose()?;
        let any_weight = any_weight.and_then(|module| module.entries.iter().find_map(Entry::weight));
        let effects: SideEffects = self.deltas_of_all(uses).wait()?.effects().wait()?;
        let any_weight = any_weight.map(|weight| weight.id());
        let optimizer = Arc::new(Asked { optimizer, steps, norms, any_weight });
        asked.set_optimizer(optimizer.clone());
        effects.enlist(asked.clone()).step(&optimizer).wait()
    }

    fn decide(&self, from: usize, id: u64, agreed: bool) {
        if let Some(step) = self.0.communication.turn.take(|step| step.id == id && step.from == from) {
            if agreed {
                lock(&self.0.gate).steps += 1;
            }
            // The thread for steps may have ended.
            let _ = step.decide.send(agreed);
        }
    }

    fn release(&self, from: usize, id: u64) {
        let mut calls = lock(&self.0.calls);
        let running = if calls.running.get(&id).is_some_and(|(rank, _)| *rank == from) {
            calls.running.remove(&id)
        } else {
            None
        };
        let open =
            if calls.open.get(&id).is_some_and(|open| open.from == from) { calls.open.remove(&id) } else { None };
        drop(calls);
        running.into_iter().for_each(|(_, handle)| handle.abort());
        drop(open); // without the lock: it may release calls of other ranks
    }
}

fn released() -> Error {
    Error::invalid("the values of this call are not kept any more")
}

impl Receiver for Server {
    fn receive(&self, from: usize, header: Header, body: &[u8]) {
        match header.kind {
            Kind::Release => self.release(from, header.id),
            Kind::Prepare => self.prepare(from, header.id, body),
            Kind::Decision => self.decide(from, header.id, body == [1]),
            Kind::Call | Kind::Read => {
                let mut gate = lock(&self.0.gate);
                if gate.holds(from, &self.0.communication) {
                    gate.held.push((from, header, body.to_vec()));
                    return;
                }
                drop(gate);
                self.start(from, header, body.to_vec());
            }
            _ => self.start(from, header, body.to_vec()),
        }
    }

    fn lost(&self, rank: usize) {
        // The sender is dropped: the step is not taken.
        drop(self.0.communication.turn.take(|step| step.from == rank));
        let mut calls = lock(&self.0.calls);
        let running: Vec<_> = calls.running.extract_if(|_, (from, _)| *from == rank).collect();
        let open: Vec<_> = calls.open.extract_if(|_, open| open.from == rank).collect();
        drop(calls);
        running.into_iter().for_each(|(_, (_, handle))| handle.abort());
        drop(open);
    }
}

/// The numbers of an entry of a module on another rank.
pub(crate) fn read(communication: &Communication, owner: usize, module: u64, path: &str) -> Result<Numbers> {
    communication.request_blocking(owner, Kind::Read, (module, path.to_owned()).to_bytes())
}
