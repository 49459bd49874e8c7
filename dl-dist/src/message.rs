//! Messages: a header, and a body of the announced length.

use crate::communication::{Ended, is_ended};
use dl_core::parts::Wire;
use dl_core::{Error, ErrorData, Result, buffers};

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A contribution to an exchange, in which all ranks take part.
    Exchange,
    /// The program of the rank has ended.
    Ended,
    /// The answer to a request, or its error.
    Answer,
    /// Request: evaluate a function.
    Call,
    /// Request: the derivatives of a call.
    Back,
    /// A call is not needed any more. It has no answer.
    Release,
    /// Request: prepare a step on the weights of some calls, and vote.
    Prepare,
    /// The decision on a prepared step. It has no answer.
    Decision,
    /// Request: the norms of the deltas of some calls.
    Norms,
    /// Request: the numbers of a weight or a buffer.
    Read,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::Exchange,
        Kind::Ended,
        Kind::Answer,
        Kind::Call,
        Kind::Back,
        Kind::Release,
        Kind::Prepare,
        Kind::Decision,
        Kind::Norms,
        Kind::Read,
    ];

    /// Whether it belongs to the calls between two ranks.
    pub(crate) fn is_of_call(self) -> bool {
        !matches!(self, Kind::Exchange | Kind::Ended)
    }
}

/// The beginning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// The number of the exchange or of the request.
    pub(crate) id: u64,
    /// The number of this message among those of its sender to its receiver, from 0. A lost message
    /// is noticed by it, and one that comes twice is ignored.
    pub(crate) number: u64,
}

/// "dld" and the version of the format.
const MAGIC: u32 = u32::from_le_bytes(*b"dld1");

impl Header {
    /// Writes the header into the room before the body.
    pub(crate) fn seal(self, message: &mut [u8]) {
        let (room, body) = message.split_at_mut(HEADER);
        let header = (MAGIC, self.kind as u8, self.id, self.number, body.len()).to_bytes();
        room.copy_from_slice(&header);
    }

    /// The header and the body of a message.
    ///
    /// # Errors
    /// If the bytes are not those of a message.
    pub(crate) fn of(mut message: &[u8]) -> Result<(Header, &[u8])> {
        let bytes = &mut message;
        let (magic, kind, id, number) = <(u32, u8, u64, u64)>::read(bytes)?;
        if magic != MAGIC {
            return Err(Error::invalid("it is not a message of this version of the library"));
        }
        let kind = Kind::ALL.into_iter().find(|&known| known as u8 == kind);
        let kind = kind.ok_or_else(|| Error::invalid("the kind of the message is unknown"))?;
        let length = usize::read(bytes)?;
        if length != bytes.len() {
            return Err(Error::invalid(format!("{length} bytes were announced, and {} came", bytes.len())));
        }
        Ok((Header { kind, id, number }, bytes))
    }
}

/// The bytes of a header.
pub(crate) const HEADER: usize = 4 + 1 + 8 + 8 + 8;

/// A message with this body, with room for its header, and with so many bytes after the body, which
/// the caller must overwrite.
pub(crate) fn unsealed(body: &[u8], room: usize) -> Vec<u8> {
    let mut message = buffers::take_filled(HEADER + body.len() + room);
    message[HEADER..][..body.len()].copy_from_slice(body);
    message
}

/// The bytes of a value, or of an error.
pub(crate) fn encode(result: Result<&[u8]>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + result.as_ref().map_or(0, |value| value.len()));
    result.as_ref().err().map(Error::data).write(&mut bytes);
    match result {
        Ok(value) => bytes.extend_from_slice(value),
        Err(error) => u8::from(is_ended(&error)).write(&mut bytes),
    }
    bytes
}

/// The inverse of [`encode`].
///
/// # Errors
/// If the bytes are not those of a result.
pub(crate) fn decode<V: Wire>(mut bytes: &[u8]) -> Result<Result<V>> {
    let bytes = &mut bytes;
    Ok(match Option::<ErrorData>::read(bytes)? {
        // As data, it would count as the cause of a failure.
        Some(error) if u8::read(bytes)? == 1 => Err(Error::other(Ended::PassedOn(error.into_error()))),
        Some(error) => Err(error.into_error()),
        None => Ok(V::from_bytes(bytes)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_with_any_byte_changed_or_cut_is_error_or_other_header() {
        let header = Header { kind: Kind::Back, id: 7, number: 3 };
        let mut message = unsealed(&[1, 2, 3], 0);
        header.seal(&mut message);
        assert_eq!(message.len(), HEADER + 3);
        assert_eq!(Header::of(&message).unwrap(), (header, &[1, 2, 3][..]));
        for end in 0..message.len() {
            assert!(Header::of(&message[..end]).is_err(), "{end}");
        }
        for place in 0..HEADER {
            let mut damaged = message.clone();
            damaged[place] ^= 0x55;
            assert!(Header::of(&damaged).map_or(true, |(other, _)| other != header), "{place}");
        }
    }

    #[test]
    fn huge_announced_length_is_error() {
        let mut message = unsealed(&[], 0);
        Header { kind: Kind::Call, id: 0, number: 0 }.seal(&mut message);
        message[HEADER - 8..].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Header::of(&message).is_err());
    }
}
