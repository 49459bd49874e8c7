//! Messages between processes: the test starts this program again, under `mpirun`.

use super::*;
use std::process::Command;

const CHILD: &str = "DL_MPI_ENGINE_TEST";

/// More than MPI sends before the receiver is ready, and not a multiple of the piece.
const LONG: usize = (8 << 20) + 3;
const NUMBERS: u64 = 100;

/// Both ranks send everything before they receive anything.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut mpi = Mpi::start(Duration::from_secs(3)).unwrap();
    mpi.piece = 1 << 20;
    let (rank, other) = (mpi.rank(), 1 - mpi.rank());
    assert!(mpi.size() == 2 && !mpi.host().is_empty());
    mpi.send(other, vec![rank as u8 + 1; LONG]).unwrap();
    (0..NUMBERS).for_each(|number| mpi.send(other, number.to_le_bytes().to_vec()).unwrap());
    mpi.send(other, Vec::new()).unwrap();

    let (mut received, mut empty) = (Vec::new(), 0);
    while received.len() <= NUMBERS as usize || empty == 0 {
        match mpi.receive(Duration::from_secs(20)).unwrap() {
            Some((from, message)) if message.is_empty() => empty += usize::from(from == other),
            Some((from, message)) => received.extend((from == other).then_some(message)),
            None => panic!("{} messages and {empty} empty ones came", received.len()),
        }
    }
    assert!(received[0] == vec![other as u8 + 1; LONG] && empty == 1);
    let numbers = received[1..].iter().map(|bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()));
    assert!(numbers.eq(0..NUMBERS));

    let begin = Instant::now();
    assert_eq!(mpi.receive(Duration::from_millis(50)).unwrap(), None);
    assert!(begin.elapsed() >= Duration::from_millis(50));
    let wake = mpi.waker().unwrap();
    let waking = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        wake();
    });
    assert_eq!(mpi.receive(Duration::from_secs(60)).unwrap(), None);
    assert!(begin.elapsed() < Duration::from_secs(30));
    waking.join().unwrap();

    assert!(Mpi::start(Duration::from_secs(3)).err().unwrap().to_string().contains("only once"));
    mpi.end(false);
    assert!(mpi.has_ended);
}

#[test]
fn messages_between_processes_arrive_whole_and_in_order() {
    let mut command = Command::new("mpirun");
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"), (CHILD, "1")]);
    command.envs([("OMPI_MCA_rmaps_base_oversubscribe", "1"), ("OMPI_MCA_hwloc_base_binding_policy", "none")]);
    command.args(["-n", "2"]).arg(std::env::current_exe().unwrap()).args(["--exact", "mpi::tests::child"]);
    match command.output() {
        Ok(output) => {
            let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
            assert!(output.status.success() && text[0].matches("1 passed").count() == 2, "{text:?}");
        }
        Err(error) => eprintln!("there is no `mpirun`, messages between processes are not tested: {error}"),
    }
}
