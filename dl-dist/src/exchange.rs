//! The exchange of one message between every two ranks.

use crate::communication::Communication;
use crate::message::{HEADER, Kind, unsealed};
use dl_core::parts::Wire;
use dl_core::{Error, ErrorData, Result, buffers};

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

impl Round {
    const ALL: [Round; 10] = [
        Round::Programs,
        Round::Compare,
        Round::Place,
        Round::Sums,
        Round::Slices,
        Round::Norms,
        Round::Votes,
        Round::Optimizer,
        Round::Values,
        Round::Run,
    ];

    /// What the ranks do in it.
    fn text(self) -> &'static str {
        match self {
            Round::Programs => "begins",
            Round::Compare => "compares a module",
            Round::Place => "places modules",
            Round::Sums => "begins a step",
            Round::Slices => "adds the deltas of a step",
            Round::Norms => "takes the norm of the deltas of a step",
            Round::Votes => "votes on a step",
            Round::Optimizer => "sets an optimizer",
            Round::Values => "sends the values of a step with `shard_state`",
            Round::Run => "makes a decision of its trainer",
        }
    }
}

/// A contribution of a rank.
pub(crate) struct Received<V> {
    pub(crate) value: V,
    numbers: Tail,
}

/// The end of a message. The buffer of the message goes back to the pool when this is dropped.
struct Tail {
    message: Vec<u8>,
    start: usize,
}

impl<V> Received<V> {
    /// The bytes of the numbers that follow the value; none in the contribution of this rank.
    pub(crate) fn numbers(&self) -> &[u8] {
        &self.numbers.message[self.numbers.start..]
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        buffers::give_back(std::mem::take(&mut self.message));
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
    let all = Posted::new(communication, round, count, mine, 0, |_, _| 0).collect(communication)?;
    let value = |(from, received): (usize, Received<V>)| match received.numbers().len() {
        0 => Ok(received.value),
        more => Err(Error::invalid(format!("a message of rank {from}: {more} bytes are left over"))),
    };
    all.into_iter().enumerate().map(value).collect()
}

/// An [`exchange`] to which this rank has contributed. It must be collected.
#[must_use]
pub(crate) struct Posted<V> {
    round: Round,
    count: u64,
    mine: Result<V>,
}

impl<V: Wire> Posted<V> {
    /// Sends the contribution of this rank. The value for each rank is followed by numbers, which
    /// `numbers` writes into the room of so many bytes. It returns how many bytes it needs.
    pub(crate) fn new(
        communication: Option<&Communication>,
        round: Round,
        count: u64,
        mine: Result<V>,
        room: usize,
        mut numbers: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Self {
        let mut body = vec![round as u8];
        mine.as_ref().err().map(Error::data).write(&mut body);
        if let Ok(value) = &mine {
            value.write(&mut body);
        }
        if let Some(communication) = communication {
            for to in (0..communication.size()).filter(|&other| other != communication.rank()) {
                let mut message = unsealed(&body, room);
                let end = message.len() - room;
                let len = if mine.is_ok() { numbers(to, &mut message[end..]) } else { 0 };
                message.truncate(end + len);
                communication.post(to, Kind::Exchange, count, message);
            }
        }
        Posted { round, count, mine }
    }

    /// Waits for the contributions of all ranks.
    ///
    /// # Errors
    /// Those of the ranks, and of the engine.
    pub(crate) fn collect(self, communication: Option<&Communication>) -> Result<Vec<Received<V>>> {
        let of_this_rank = |value| Received { value, numbers: Tail { message: Vec::new(), start: 0 } };
        let Some(communication) = communication else { return Ok(vec![of_this_rank(self.mine?)]) };
        let (rank, size) = (communication.rank(), communication.size());
        let (mut mine, mut values, mut failed) = (Some(self.mine), Vec::with_capacity(size), None::<Error>);
        for from in 0..size {
            let theirs = match mine.take_if(|_| from == rank) {
                // as the other ranks get it
                Some(mine) => mine.map(of_this_rank).map_err(|error| error.data().into_error()),
                None => read(communication.contribution(from, self.count)?, self.round, from, rank)
                    .map_err(|error| error.context(format_args!("a message of rank {from}")))?,
            };
            match theirs {
                Ok(value) => values.push(value),
                Err(error) => failed = failed.or(Some(error.of_rank(from))),
            }
        }
        failed.map_or(Ok(values), Err)
    }
}

/// The contribution in a message, or its error.
fn read<V: Wire>(message: Vec<u8>, round: Round, from: usize, rank: usize) -> Result<Result<Received<V>>> {
    let bytes = &mut &message[HEADER..];
    let number = u8::read(bytes)?;
    if number != round as u8 {
        let theirs = Round::ALL.into_iter().find(|&other| other as u8 == number).map_or("is elsewhere", Round::text);
        return Err(Error::invalid(format!(
            "rank {from} {theirs}, and rank {rank} {}: all ranks must do the same in the same order",
            round.text()
        )));
    }
    if let Some(error) = Option::<ErrorData>::read(bytes)? {
        return Ok(Err(error.into_error()));
    }
    let (value, start) = (V::read(bytes)?, message.len() - bytes.len());
    Ok(Ok(Received { value, numbers: Tail { message, start } }))
}
