//! The exchange of one message between every two ranks.

use crate::communication::Communication;
use crate::message::Kind;
use dl_core::parts::Wire;
use dl_core::{Error, ErrorData, Result};

/// The exchange that a message belongs to. A rank that receives a message of another exchange
/// returns an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// The comparison of processes.
    #[cfg_attr(not(has_mpi), allow(dead_code, reason = "threads have one program"))]
    Programs,
    /// The comparison of replicas.
    Compare,
    /// The modules that are placed on ranks.
    Place,
    /// The sums of the parts of a step.
    Sums,
    /// The norms of the deltas of placed modules.
    Norms,
    /// The votes on a step.
    Votes,
    /// The kind of the optimizer of placed modules.
    Optimizer,
}

/// The contribution of every rank, or its error. Every rank takes part, whether it has failed or
/// not, and gets the same answer: all contributions, or the errors of all ranks that failed, the one
/// of the lowest rank first.
///
/// # Errors
/// Those of the ranks, and of the engine.
pub(crate) fn exchange<V: Wire>(
    communication: Option<&Communication>,
    round: Round,
    count: u64,
    mine: Result<V>,
) -> Result<Vec<V>> {
    let Some(communication) = communication else { return Ok(vec![mine?]) };
    let (rank, size) = (communication.rank(), communication.size());
    let answer = mine.as_ref().err().map(Error::data);
    let mut message = vec![round as u8];
    answer.write(&mut message);
    if let Ok(value) = &mine {
        value.write(&mut message);
    }
    let others = (0..size).filter(|&other| other != rank);
    others.for_each(|to| communication.queue(to, Kind::Exchange, count, message.clone()));
    let (mut mine, mut values, mut failed) = (Some(mine), Vec::with_capacity(size), None::<Error>);
    for from in 0..size {
        let theirs = match mine.take_if(|_| from == rank) {
            // as the other ranks get it
            Some(mine) => mine.map_err(|error| error.data().into_error()),
            None => read(&communication.contribution(from, count)?, round, from)?,
        };
        match theirs {
            Ok(value) => values.push(value),
            Err(error) => failed = failed.or(Some(error.context(format_args!("rank {from}")))),
        }
    }
    failed.map_or(Ok(values), Err)
}

/// The contribution in a message, or its error.
fn read<V: Wire>(mut message: &[u8], round: Round, from: usize) -> Result<Result<V>> {
    let bytes = &mut message;
    let read = |bytes: &mut &[u8]| {
        if u8::read(bytes)? != round as u8 {
            return Err(Error::invalid("it is at another place of the program"));
        }
        let error = Option::<ErrorData>::read(bytes)?;
        Ok(match error {
            Some(error) => Err(error.into_error()),
            None => Ok(V::from_bytes(bytes)?),
        })
    };
    read(bytes).map_err(|error| error.context(format_args!("a message of rank {from}")))
}
