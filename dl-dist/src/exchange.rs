//! The exchange of one message between every two ranks.

use crate::communication::Communication;
use crate::message::{HEADER, Kind, unsealed};
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
    /// The slices of the sum over all parts.
    Slices,
    /// The norms of the deltas of placed modules.
    Norms,
    /// The votes on a step.
    Votes,
    /// The kind of the optimizer of placed modules.
    Optimizer,
    /// The new values of weights, each from its owner.
    Values,
    /// The decisions of a training run besides its steps.
    Run,
}

/// A contribution of a rank.
pub(crate) struct Received<V> {
    pub(crate) value: V,
    message: Vec<u8>,
    /// Where the numbers after the value begin.
    start: usize,
}

impl<V> Received<V> {
    /// The bytes of the numbers that follow the value; none in the contribution of this rank.
    pub(crate) fn numbers(&self) -> &[u8] {
        &self.message[self.start..]
    }
}

/// The contribution of every rank, or its error. Every rank takes part, whether it has failed or
/// not, and gets the same answer: all contributions, or the errors of all ranks that failed, the
/// one of the lowest rank first.
///
/// # Errors
/// Those of the ranks, and of the engine.
pub(crate) fn exchange<V: Wire>(
    communication: Option<&Communication>,
    round: Round,
    count: u64,
    mine: Result<V>,
) -> Result<Vec<V>> {
    let all = exchange_numbers(communication, round, count, mine, |_, _| {})?;
    let value = |(from, received): (usize, Received<V>)| match received.numbers().len() {
        0 => Ok(received.value),
        more => Err(Error::invalid(format!("a message of rank {from}: {more} bytes are left over"))),
    };
    all.into_iter().enumerate().map(value).collect()
}

/// An [`exchange`] in which the value for each rank is followed by numbers, which `numbers` appends
/// to the message for a rank.
///
/// # Errors
/// Those of the ranks, and of the engine.
pub(crate) fn exchange_numbers<V: Wire>(
    communication: Option<&Communication>,
    round: Round,
    count: u64,
    mine: Result<V>,
    mut numbers: impl FnMut(usize, &mut Vec<u8>),
) -> Result<Vec<Received<V>>> {
    let of_this_rank = |value| Received { value, message: Vec::new(), start: 0 };
    let Some(communication) = communication else { return Ok(vec![of_this_rank(mine?)]) };
    let (rank, size) = (communication.rank(), communication.size());
    let mut body = vec![round as u8];
    mine.as_ref().err().map(Error::data).write(&mut body);
    if let Ok(value) = &mine {
        value.write(&mut body);
    }
    for to in (0..size).filter(|&other| other != rank) {
        let mut message = unsealed(&body);
        if mine.is_ok() {
            numbers(to, &mut message);
        }
        communication.post(to, Kind::Exchange, count, message);
    }
    let (mut mine, mut values, mut failed) = (Some(mine), Vec::with_capacity(size), None::<Error>);
    for from in 0..size {
        let theirs = match mine.take_if(|_| from == rank) {
            // as the other ranks get it
            Some(mine) => mine.map(of_this_rank).map_err(|error| error.data().into_error()),
            None => read(communication.contribution(from, count)?, round)
                .map_err(|error| error.context(format_args!("a message of rank {from}")))?,
        };
        match theirs {
            Ok(value) => values.push(value),
            Err(error) => failed = failed.or(Some(error.context(format_args!("rank {from}")))),
        }
    }
    failed.map_or(Ok(values), Err)
}

/// The contribution in a message, or its error.
fn read<V: Wire>(message: Vec<u8>, round: Round) -> Result<Result<Received<V>>> {
    let bytes = &mut &message[HEADER..];
    if u8::read(bytes)? != round as u8 {
        return Err(Error::invalid("it is at another place of the program"));
    }
    if let Some(error) = Option::<ErrorData>::read(bytes)? {
        return Ok(Err(error.into_error()));
    }
    let (value, start) = (V::read(bytes)?, message.len() - bytes.len());
    Ok(Ok(Received { value, message, start }))
}
