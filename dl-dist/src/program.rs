//! What must be equal in the processes of a job before they compute together.

use dl_core::{Error, Result};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A property of the program, and its value.
type Property = (String, String);

/// A process of a job.
pub(crate) struct Process {
    /// The host and the process number, for messages.
    pub(crate) name: String,
    properties: Vec<Property>,
}

/// A process as it is sent to the others.
pub(crate) type Sent = (String, Vec<Property>);

impl Process {
    /// This process. `functions` are the names and the types of the functions that other ranks can
    /// call.
    pub(crate) fn this(host: &str, functions: Vec<(String, String)>) -> Result<Process> {
        let mut properties = vec![
            ("version of the library".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("instruction set".to_owned(), dl_core::instructions().to_owned()),
        ];
        properties.extend(functions.into_iter().map(|(name, types)| (format!("function `{name}`"), types)));
        // Last, because the properties above explain a difference better.
        properties.push(("build".to_owned(), build()?));
        Ok(Process { name: format!("{host}, pid {}", std::process::id()), properties })
    }

    pub(crate) fn to_sent(&self) -> Sent {
        (self.name.clone(), self.properties.clone())
    }

    pub(crate) fn of_sent((name, properties): Sent) -> Process {
        Process { name, properties }
    }
}

/// A number of the file of this program.
fn build() -> Result<String> {
    let read = || {
        let mut hasher = DefaultHasher::new();
        std::fs::read(std::env::current_exe()?)?.hash(&mut hasher);
        std::io::Result::Ok(format!("{:016x}", hasher.finish()))
    };
    read().map_err(|error| Error::invalid(format!("the file of this program cannot be read: {error}")))
}

/// Refuses processes that are not equal.
///
/// # Errors
/// Names the first rank that differs from rank 0, and the first difference.
pub(crate) fn compare(all: &[Process]) -> Result<()> {
    let first = &all[0];
    for (rank, other) in all.iter().enumerate().skip(1) {
        let of = |process: &Process, name: &str| {
            let known = process.properties.iter().find(|(known, _)| known == name);
            known.map_or("absent".to_owned(), |(_, value)| value.clone())
        };
        let names = first.properties.iter().chain(&other.properties).map(|(name, _)| name);
        let mut differing = names.filter(|name| of(first, name) != of(other, name));
        if let Some(name) = differing.next() {
            let hint = if name == "instruction set" { "; DL_INSTRUCTIONS sets it" } else { "" };
            return Err(Error::invalid(format!(
                "ranks 0 ({}) and {rank} ({}) differ: {name} is {} on rank 0 and {} on rank {rank}{hint}",
                first.name,
                other.name,
                of(first, name),
                of(other, name),
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(functions: &[&str]) -> Process {
        let functions = functions.iter().map(|name| (name.to_string(), "f32 -> f32".to_owned()));
        Process::this("node1", functions.collect()).unwrap()
    }

    fn error(all: &[Process]) -> String {
        compare(all).unwrap_err().to_string()
    }

    #[test]
    fn difference_names_two_ranks_and_property() {
        compare(&[process(&["a"]), process(&["a"])]).unwrap();
        let text = error(&[process(&["a", "b"]), process(&["a", "b"]), process(&["b"])]);
        assert!(text.contains("ranks 0 (node1, pid") && text.contains("and 2 (node1, pid"), "{text}");
        assert!(text.contains("function `a` is f32 -> f32 on rank 0 and absent on rank 2"), "{text}");
        let text = error(&[process(&["a"]), process(&["a", "b"])]);
        assert!(text.contains("function `b` is absent on rank 0 and f32 -> f32 on rank 1"), "{text}");

        let mut other = process(&[]);
        other.properties.iter_mut().for_each(|(name, value)| {
            if ["instruction set", "build"].contains(&&name[..]) {
                *value = "none".to_owned();
            }
        });
        let text = error(&[process(&[]), Process::of_sent(other.to_sent())]);
        assert!(
            text.contains("instruction set is") && text.ends_with("none on rank 1; DL_INSTRUCTIONS sets it"),
            "{text}"
        );
    }
}
