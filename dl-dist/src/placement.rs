//! Modules on one rank that all ranks can call.

use crate::cluster::Cluster;
use crate::communication::{Communication, lock, numbered, rank_of};
use crate::elsewhere::Elsewhere;
use crate::exchange::Round;
use crate::function::functions;
use crate::placed::Placed;
use crate::server;
use dl_core::parts::ElsewhereEntry;
use dl_core::{DType, Entry, Error, Module, Optimizer, Result, Weight};
use std::any::type_name;
use std::ops::Range;
use std::sync::Arc;

impl Cluster {
    /// Makes a module on one rank, which all ranks can call. All ranks must call this at the same
    /// place of the program; `make` is called on the owner only.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Module};
    /// use dl_dist::{Cluster, remote};
    /// use dl_nd::{Nd, NdLayer, init};
    /// use dl_nn::{Block, Linear};
    ///
    /// #[derive(Clone, dl_macros::Module)]
    /// # #[module(crate = dl_core)]
    /// struct Expert(Linear);
    ///
    /// #[remote(crate = dl_dist)]
    /// impl Block for Expert {
    ///     fn of(&self, x: &NdLayer) -> NdLayer {
    ///         self.0.of(x)
    ///     }
    /// }
    ///
    /// let values = Cluster::run_on(2, |cluster| {
    ///     let expert = cluster.place(1, || Ok(Expert(Linear::new(3, 2, &mut init::rng(1))?)))?;
    ///     assert_eq!(expert.names(), ["0.weight", "0.bias"]); // on both ranks
    ///     // rank 0 sends its input to rank 1, which evaluates the expert
    ///     expert.of(&Layer::constant(Nd::from([[1.0, 2.0, 3.0]]))).predict().wait()
    /// })?;
    /// assert_eq!(values[0], values[1]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// The error of `make`, on all ranks. If ranks place other modules, or run other builds.
    #[track_caller]
    pub fn place<M>(&self, owner: usize, make: impl FnOnce() -> Result<M>) -> Result<Placed<M>>
    where
        M: Module + Send + Sync + 'static,
    {
        if owner >= self.size() {
            let size = self.size();
            return Err(Error::invalid(format!("there is no rank {owner}: the program has {size}, counted from 0")));
        }
        let mut make = Some(make);
        let placed = self.place_all([(0, owner)], |_| make.take().expect("one module is made")())?;
        Ok(placed.into_iter().next().expect("one module is placed"))
    }

    /// Makes modules on all ranks in turns: the first on rank 0, the second on rank 1. All ranks
    /// must call this at the same place of the program.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    /// let made = AtomicUsize::new(0);
    /// dl_dist::Cluster::run_on(3, |cluster| {
    ///     cluster.spread(0..8, |n| {
    ///         made.fetch_add(1, SeqCst);
    ///         Ok(dl_core::Weight::new(n as f64))
    ///     })
    /// })?;
    /// assert_eq!(made.into_inner(), 8);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`place`](Cluster::place).
    #[track_caller]
    pub fn spread<M>(&self, numbers: Range<usize>, make: impl FnMut(usize) -> Result<M>) -> Result<Vec<Placed<M>>>
    where
        M: Module + Send + Sync + 'static,
    {
        let size = self.size();
        self.place_all(numbers.enumerate().map(|(turn, number)| (number, turn % size)), make)
    }

    #[track_caller]
    fn place_all<M: Module + Send + Sync + 'static>(
        &self,
        all: impl IntoIterator<Item = (usize, usize)>,
        mut make: impl FnMut(usize) -> Result<M>,
    ) -> Result<Vec<Placed<M>>> {
        let Some(ranks) = &self.ranks else {
            return all.into_iter().map(|(number, owner)| Ok(Placed::here(owner, Arc::new(make(number)?)))).collect();
        };
        let mut exchanges = self.exchanges()?;
        let first = lock(&ranks.placed).0;
        let mut made = Vec::new();
        let make_all = || {
            for (module, (number, owner)) in (first..).zip(all) {
                let module = numbered(owner, module);
                made.push(if owner == self.rank() {
                    Made::Here(module, Arc::new(make(number)?))
                } else {
                    let communication = ranks.communication.clone();
                    Made::Elsewhere(Weight::new(Elsewhere { communication, module }))
                });
            }
            Ok(())
        };
        let ended = make_all();
        let modules: Vec<u64> = made.iter().map(Made::number).collect();
        let descriptions = made.iter().filter_map(Made::here).map(|module| described(&**module)).collect();
        let mine: Placement = (type_name::<M>().to_owned(), functions(), modules.clone(), descriptions);
        let mut theirs = exchanges.round(Round::Place, ended.map(|()| mine))?;
        for (rank, (name, functions, modules, _)) in theirs.iter().enumerate() {
            let (first_name, first_functions, first_modules, _) = &theirs[0];
            if (name, modules) != (first_name, first_modules) {
                return Err(Error::invalid(format!("rank {rank} and rank 0 place other modules")));
            }
            if functions != first_functions {
                let differs = |function: &&(String, String)| !first_functions.contains(function);
                let first_differs = |function: &&(String, String)| !functions.contains(function);
                let found = functions.iter().find(differs).or_else(|| first_functions.iter().find(first_differs));
                let name = found.map_or("", |(name, _)| name);
                return Err(Error::invalid(format!("rank {rank} and rank 0 run other builds: `{name}` differs")));
            }
        }
        let mut placed = Vec::with_capacity(made.len());
        let mut described: Vec<_> = theirs.iter_mut().map(|theirs| std::mem::take(&mut theirs.3).into_iter()).collect();
        for made in made {
            let number = made.number();
            let entries = described[rank_of(number)].next();
            placed.push(match made {
                Made::Here(number, module) => {
                    let entries = module.entries();
                    ranks.server.add(number, server::Placement { module: module.clone(), entries });
                    Placed::here(self.rank(), module)
                }
                Made::Elsewhere(stand_in) => {
                    let entries = entries.ok_or_else(|| Error::invalid("a module was not described by its owner"))?;
                    lock(&ranks.placed).1.push(stand_in.clone());
                    Placed::elsewhere(stand_in, entries_elsewhere(&ranks.communication, number, entries)?)
                }
            });
        }
        lock(&ranks.placed).0 += placed.len() as u64;
        // No rank may call a module before its owner has added it.
        exchanges.round(Round::Place, Ok(()))?;
        Ok(placed)
    }

    /// Sets the optimizer for the modules on this rank in steps that another rank takes by itself,
    /// by `train` or [`step`](dl_core::SideEffects::step). All ranks must call this at the same place
    /// of the program, with the same optimizer. Steps on all ranks, by [`sum`](Cluster::sum) and
    /// [`mean`](Cluster::mean), have their own.
    ///
    /// ```
    /// dl_dist::Cluster::run_on(2, |cluster| {
    ///     let adam = dl_optim::Adam::new(0.01); // each rank has its own, with the state of its weights
    ///     cluster.set_optimizer(&adam)
    /// })?;
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If ranks set optimizers of different kinds.
    pub fn set_optimizer<O: Optimizer + Clone + 'static>(&self, optimizer: &O) -> Result<()> {
        self.server().into_iter().for_each(|server| server.set_optimizer(Arc::new(optimizer.clone())));
        // No rank may take a step before the owners have an optimizer.
        let kinds = self.exchanges()?.round(Round::Optimizer, Ok(optimizer.kind()))?;
        match kinds.iter().position(|kind| *kind != kinds[0]) {
            None => Ok(()),
            Some(rank) => Err(Error::invalid(format!(
                "rank {rank} sets the optimizer {}, and rank 0 sets {}",
                kinds[rank], kinds[0]
            ))),
        }
    }
}

/// A module that is being placed.
enum Made<M> {
    Here(u64, Arc<M>),
    Elsewhere(Weight<Elsewhere>),
}

impl<M> Made<M> {
    fn number(&self) -> u64 {
        match self {
            Made::Here(number, _) => *number,
            Made::Elsewhere(stand_in) => stand_in.value().module,
        }
    }

    fn here(&self) -> Option<&Arc<M>> {
        match self {
            Made::Here(_, module) => Some(module),
            Made::Elsewhere(_) => None,
        }
    }
}

/// An entry of a module: its path, whether it is a weight, the type and the shape, and the index of
/// the first entry that is the same weight or buffer.
type Described = (String, u8, DType, Vec<usize>, usize);

/// The message of a rank that places modules: their type, the functions that it has, the numbers of
/// all modules, and the entries of those on this rank.
type Placement = (String, Vec<(String, String)>, Vec<u64>, Vec<Vec<Described>>);

fn described<M: Module>(module: &M) -> Vec<Described> {
    let entries = module.entries();
    let describe = |entry: &Entry| {
        let first = entries.iter().position(|first| first.is_same(entry)).unwrap_or_default();
        (entry.path().to_owned(), u8::from(entry.is_weight()), entry.dtype(), entry.shape(), first)
    };
    entries.iter().map(describe).collect()
}

fn entries_elsewhere(
    communication: &Arc<Communication>,
    module: u64,
    described: Vec<Described>,
) -> Result<Vec<Arc<ElsewhereEntry>>> {
    let rank = rank_of(module);
    let mut entries: Vec<Arc<ElsewhereEntry>> = Vec::with_capacity(described.len());
    for (index, (path, is_weight, dtype, shape, first)) in described.into_iter().enumerate() {
        let stand_in = match first.cmp(&index) {
            std::cmp::Ordering::Less => entries[first].stand_in.clone(),
            std::cmp::Ordering::Equal => Weight::new(0.0),
            std::cmp::Ordering::Greater => return Err(Error::invalid("the entries of a module are out of order")),
        };
        let read = {
            let (communication, path) = (communication.clone(), path.clone());
            Box::new(move || server::read(&communication, rank, module, &path))
        };
        entries.push(Arc::new(ElsewhereEntry { rank, path, is_weight: is_weight != 0, dtype, shape, stand_in, read }));
    }
    Ok(entries)
}
