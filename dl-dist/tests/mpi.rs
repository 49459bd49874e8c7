//! Ranks as processes under `mpirun`: the same bits, deaths, differences between processes.
//!
//! `DL_KILLS=50 cargo test -p monadic-dl-dist --features mpi --test mpi` kills and stops 50
//! processes.

use dl_core::{Differentiable, Error, Layer, Parts, Result, Weight};
use dl_dist::{Cluster, remote};
use dl_macros::Module;
use dl_nd::{Nd, NdLayer, init, ops::*};
use dl_nn::{Block, Linear as Dense, MixtureOfExperts};
use dl_optim::schedule::Linear;
use dl_optim::{AdamW, OptimizerExt};
use dl_train::{Checkpoint, Checkpoints};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use support::Net;

mod support;

const PARTS: usize = 4;
const STEPS: u64 = 60;
/// The program of a rank and its folder.
const PROGRAM: &str = "DL_MPI_TEST_PROGRAM";
const FOLDER: &str = "DL_MPI_TEST_FOLDER";
/// A job must end in this time after a death.
const END: Duration = Duration::from_secs(5);

/// What each process of a job runs. Without the environment variable this test does nothing.
#[test]
fn child() {
    let Ok(program) = std::env::var(PROGRAM) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("the folder of the test"));
    let ended = Cluster::run(|cluster| {
        fs::write(folder.join(format!("pid-{}", cluster.rank())), std::process::id().to_string()).unwrap();
        match &program[..] {
            "train" => train(cluster, &folder),
            "experts" => {
                let losses = with_experts(cluster)?;
                fs::write(folder.join(format!("losses-{}", cluster.rank())), format!("{losses:?}")).unwrap();
                Ok(())
            }
            "compute" => compute(cluster, &folder),
            "panic" => one_fails(cluster, || panic!("rank one gives up")),
            "error" => one_fails(cluster, || Err(Error::invalid("rank one gives up"))),
            other => panic!("there is no program {other}"),
        }
    });
    ended.unwrap_or_else(|error| {
        println!("the program ended: lost {}: {error}", dl_dist::is_lost(&error));
        std::process::exit(1)
    });
}

fn optimizer() -> impl dl_core::Optimizer + Clone + 'static {
    AdamW::new(Linear::new(0.001, 0.02, 4)).clip_norm(0.1).ema(0.9)
}

/// A net, and a weight with deltas that are large enough to be added in slices.
type Large = (Net, Weight<Nd<f32>>);

fn large() -> Result<Large> {
    Ok((Net::new()?, Weight::new(Nd::full([130, 130], 0.5))))
}

fn loss((net, large): &Large, part: usize) -> Layer<f32> {
    let rows = Nd::from_vec([130, 1], (0..130).map(|row| ((row * part + 1) % 7) as f32).collect());
    net.loss(part) + (large * rows.expect("as many numbers as rows")).tanh().mean()
}

/// Trains from the last checkpoint on. Rank 0 saves one after every step.
fn train(cluster: &Cluster, folder: &Path) -> Result<()> {
    let (net, optimizer) = (large()?, optimizer());
    let checkpoints = Checkpoints::in_folder(folder).keep(2);
    let mut first = 0;
    if let Some(latest) = checkpoints.latest()? {
        latest.saved.restore().module("net", &net).optimizer("adam", &optimizer, &net).apply()?;
        first = latest.step;
    }
    cluster.compare(&net)?;
    for step in first..STEPS {
        cluster.mean(PARTS, |part| loss(&net, 10 * step as usize + part)).seed(step).train(&net, &optimizer)?;
        if cluster.rank() == 0 {
            save(&checkpoints, step + 1, &net, &optimizer)?;
        }
    }
    fs::write(folder.join(format!("done-{}", cluster.rank())), "").unwrap();
    cluster.compare(&net)
}

fn save(
    checkpoints: &Checkpoints,
    step: u64,
    net: &Large,
    optimizer: &(impl dl_core::Optimizer + Clone + 'static),
) -> Result<()> {
    let checkpoint = Checkpoint::new().module("net", net).optimizer("adam", optimizer, net);
    checkpoints.save(step, &checkpoint).map(drop)
}

#[derive(Clone, Module)]
#[module(crate = dl_core)]
struct Expert(Dense);

impl Expert {
    fn new(number: usize) -> Result<Expert> {
        Ok(Expert(Dense::new(4, 4, &mut init::rng(number as u64))?))
    }
}

#[remote(crate = dl_dist)]
impl Block for Expert {
    fn of(&self, x: &NdLayer) -> NdLayer {
        self.0.of(x).relu().dropout(0.2)
    }
}

/// The bits of the losses of steps on experts that are spread over the ranks.
fn with_experts(cluster: &Cluster) -> Result<Vec<u32>> {
    let net = MixtureOfExperts::new(cluster.spread(0..5, Expert::new)?, 4, 2, &mut init::rng(100))?;
    let x = Nd::from([[1.0, 0.5, 0.0, 0.0], [0.0, 1.0, 0.5, 0.0], [0.0, 0.0, 1.0, 0.5]]);
    let (adam, mut losses) = (AdamW::new(0.01).clip_norm(0.5), Vec::new());
    for step in 0..10 {
        let loss = |part: usize| (net.of((part as f32 + 1.0) * &x) - 1.0).square().mean();
        losses.extend(cluster.mean(PARTS, loss).seed(step).train(&net, &adam)?);
    }
    losses.push(net.of(&x).mean().predict().wait()?);
    Ok(losses.into_iter().map(f32::to_bits).collect())
}

/// Computes for longer than a rank may be silent, then takes a step.
fn compute(cluster: &Cluster, folder: &Path) -> Result<()> {
    std::thread::sleep(Duration::from_millis(2500));
    let net = Net::new()?;
    cluster.mean(PARTS, |part| net.loss(part)).seed(1).train(&net, &optimizer())?;
    fs::write(folder.join(format!("done-{}", cluster.rank())), "").unwrap();
    Ok(())
}

/// Rank 1 fails before the second step; rank 0 computes for a minute.
fn one_fails(cluster: &Cluster, fail: impl Fn() -> Result<()>) -> Result<()> {
    let net = Net::new()?;
    cluster.mean(PARTS, |part| net.loss(part)).seed(1).train(&net, &optimizer())?;
    match cluster.rank() {
        0 => std::thread::sleep(Duration::from_secs(60)),
        1 => fail()?,
        _ => {}
    }
    cluster.mean(PARTS, |part| net.loss(part)).seed(2).train(&net, &optimizer()).map(drop)
}

/// Whether jobs can be started here.
fn has_mpi() -> bool {
    let has = cfg!(has_mpi) && Command::new("mpirun").arg("--version").output().is_ok();
    if !has {
        eprintln!("there is no MPI (`mpicc`, `mpirun`): ranks as processes are not tested");
    }
    has
}

/// Jobs share the cores, and times are measured: one at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Job {
    launcher: Child,
    folder: PathBuf,
    ranks: usize,
}

/// `mpirun` with settings for a test machine: any user, more ranks than cores.
fn mpirun() -> Command {
    let mut command = Command::new("mpirun");
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    command.envs([("OMPI_MCA_rmaps_base_oversubscribe", "1"), ("OMPI_MCA_hwloc_base_binding_policy", "none")]);
    command.env("RAYON_NUM_THREADS", "1");
    command
}

impl Job {
    fn start(ranks: usize, program: &str, folder: &Path, settings: &[(&str, &str)]) -> Job {
        let mut command = mpirun();
        command.args(["-n", &ranks.to_string()]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture"]).envs(settings.iter().copied());
        Job::run(command, ranks, program, folder)
    }

    fn run(mut command: Command, ranks: usize, program: &str, folder: &Path) -> Job {
        for rank in 0..ranks {
            for file in ["pid", "done"] {
                let _ = fs::remove_file(folder.join(format!("{file}-{rank}")));
            }
        }
        let log = fs::File::create(folder.join("log")).unwrap();
        let command = command.env(PROGRAM, program).env(FOLDER, folder).stdin(Stdio::null());
        let launcher = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        Job { launcher, folder: folder.to_owned(), ranks }
    }

    /// All that the processes and the launcher have printed.
    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("log")).unwrap()).into_owned()
    }

    /// The process number of a rank, as soon as the rank has been started.
    fn pid(&mut self, rank: usize) -> u32 {
        let begin = Instant::now();
        loop {
            let pid = fs::read_to_string(self.folder.join(format!("pid-{rank}")));
            if let Some(pid) = pid.ok().and_then(|pid| pid.parse().ok()) {
                return pid;
            }
            let ended = self.launcher.try_wait().unwrap();
            assert!(ended.is_none() && begin.elapsed() < Duration::from_secs(60), "{ended:?} {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether a rank has taken its last step.
    fn is_done(&self, rank: usize) -> bool {
        self.folder.join(format!("done-{rank}")).exists()
    }

    /// The exit status, or `None` if the job runs for longer.
    fn try_wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let begin = Instant::now();
        while begin.elapsed() <= limit {
            if let Some(status) = self.launcher.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// The exit status, which must come in time.
    fn end_within(&mut self, limit: Duration) -> ExitStatus {
        self.try_wait(limit).unwrap_or_else(|| {
            (0..self.ranks).for_each(|rank| signal("KILL", self.pid(rank)));
            self.launcher.kill().unwrap();
            panic!("the job does not end within {limit:?}: {}", self.log())
        })
    }

    fn succeed(mut self) {
        let status = self.end_within(Duration::from_secs(120));
        assert!(status.success(), "{status} {}", self.log());
    }
}

fn signal(name: &str, pid: u32) {
    let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Whether the process has not ended. One that waits to be collected has ended.
fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn last(folder: &Path) -> Vec<u8> {
    fs::read(Checkpoints::in_folder(folder).path(STEPS)).unwrap()
}

/// The last checkpoint of the training without a cluster.
fn trained_alone() -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let (net, optimizer) = (large()?, optimizer());
    for step in 0..STEPS {
        let losses = (0..PARTS).map(|part| loss(&net, 10 * step as usize + part));
        Parts::mean(losses).train(&optimizer).seed(step).wait()?;
    }
    save(&Checkpoints::in_folder(folder.path()), STEPS, &net, &optimizer)?;
    Ok(last(folder.path()))
}

#[test]
fn training_has_same_bits_on_any_number_of_processes() -> Result<()> {
    if !has_mpi() {
        return Ok(());
    }
    let _alone = alone();
    let expected = trained_alone()?;
    for ranks in 1..=4 {
        let folder = tempfile::tempdir().unwrap();
        Job::start(ranks, "train", folder.path(), &[]).succeed();
        assert!(last(folder.path()) == expected, "{ranks} ranks");
    }
    Ok(())
}

#[test]
fn experts_on_other_processes_have_bits_of_one_process() -> Result<()> {
    if !has_mpi() {
        return Ok(());
    }
    let _alone = alone();
    let expected = Cluster::run_on(1, with_experts)?.swap_remove(0);
    assert!(expected[..PARTS] != expected[9 * PARTS..10 * PARTS]);
    for ranks in [2, 3] {
        let folder = tempfile::tempdir().unwrap();
        Job::start(ranks, "experts", folder.path(), &[]).succeed();
        for rank in 0..ranks {
            let losses = fs::read_to_string(folder.path().join(format!("losses-{rank}"))).unwrap();
            assert_eq!(losses, format!("{expected:?}"), "rank {rank} of {ranks}");
        }
    }
    Ok(())
}

/// Processes are killed or stopped at random moments. The job must end in time and say which rank
/// it was; it goes on with another number of ranks, to the same bits.
#[test]
fn death_of_rank_ends_job_which_resumes_with_same_bits() -> Result<()> {
    if !has_mpi() {
        return Ok(());
    }
    let _alone = alone();
    let kills: usize = std::env::var("DL_KILLS").map_or(4, |kills| kills.parse().expect("DL_KILLS is a number"));
    let expected = trained_alone()?;
    let whole = tempfile::tempdir().unwrap();
    let mut job = Job::start(2, "train", whole.path(), &[]);
    job.pid(0);
    let begin = Instant::now();
    job.succeed();
    let duration = begin.elapsed();

    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut killed, mut ended, mut slowest) = (0, true, Duration::ZERO);
    let mut folder = tempfile::tempdir().unwrap();
    while killed < kills || !ended {
        if ended {
            folder = tempfile::tempdir().unwrap();
        }
        let ranks = rng.random_range(2..=4);
        let mut job = Job::start(ranks, "train", folder.path(), &[]);
        if killed == kills {
            job.succeed();
            ended = true;
        } else {
            let pids: Vec<u32> = (0..ranks).map(|rank| job.pid(rank)).collect();
            std::thread::sleep(duration.mul_f64(rng.random_range(0.0..0.6)));
            let (victim, name) = (rng.random_range(0..ranks), ["KILL", "STOP"][killed % 2]);
            signal(name, pids[victim]);
            let begin = Instant::now();
            let mut status = job.try_wait(END);
            if status.is_none() && job.is_done(victim) {
                // No rank waits for one that is stopped after its last message. The launcher does.
                signal("CONT", pids[victim]);
                status = job.try_wait(END);
            }
            let status = status.unwrap_or_else(|| job.end_within(Duration::ZERO));
            ended = status.success();
            if !ended {
                killed += 1;
                slowest = slowest.max(begin.elapsed());
                let (log, host) = (job.log(), host());
                let killed = format!("process rank {victim} with PID");
                let silent = format!("rank {victim} ({host}, pid {}) is silent for 2.", pids[victim]);
                let named =
                    if name == "KILL" { log.contains(&killed) && log.contains(&host) } else { log.contains(&silent) };
                assert!(named, "rank {victim}, {name}: {log}");
                std::thread::sleep(Duration::from_millis(100));
                for pid in pids {
                    assert!(!is_alive(pid), "process {pid} is alive: {log}");
                }
            }
        }
        assert!(!ended || last(folder.path()) == expected, "after {killed} deaths");
    }
    println!("{killed} deaths; the slowest end came after {slowest:?}");
    Ok(())
}

fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

/// Two network namespaces with a link between them, as two hosts.
struct Hosts {
    names: [String; 2],
}

const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

impl Hosts {
    /// `None` where the system does not permit it.
    fn new() -> Option<Hosts> {
        let id = std::process::id();
        let hosts = Hosts { names: ["a", "b"].map(|host| format!("dl{id}{host}")) };
        let [a, b] = &hosts.names;
        let mut made = [a, b].iter().all(|name| ip(&["netns", "add", name]));
        made = made && ip(&["link", "add", a, "netns", a, "type", "veth", "peer", "name", b, "netns", b]);
        for (name, address) in hosts.names.iter().zip(ADDRESSES) {
            made = made && ip(&["-n", name, "addr", "add", &format!("{address}/24"), "dev", name]);
            made = made && ["lo", name].iter().all(|device| ip(&["-n", name, "link", "set", device, "up"]));
        }
        made.then_some(hosts)
    }

    /// A command on the first host, which `mpirun` can start processes from.
    fn mpirun(&self, folder: &Path) -> Command {
        // in place of `ssh`: its arguments are the host and a command
        let agent = folder.join("agent");
        let script =
            format!("#!/bin/sh\nshift\nexec ip netns exec {0} unshare -u sh -c \"hostname {0}; $*\"\n", self.names[1]);
        fs::write(&agent, script).unwrap();
        fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = mpirun();
        let settings: Vec<_> =
            command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
        command = Command::new("ip");
        command.envs(settings).args(["netns", "exec", &self.names[0], "unshare", "-u", "sh", "-c"]);
        command.arg(format!("hostname {}; exec mpirun \"$@\"", self.names[0])).arg("sh");
        command.args(["-n", "2", "--host", &ADDRESSES.join(","), "--mca", "plm_rsh_agent"]).arg(agent);
        // the connections of the launcher itself
        for (setting, seconds) in [("time", "1"), ("intvl", "1"), ("probes", "2")] {
            command.args(["--mca", &format!("oob_tcp_keepalive_{setting}"), seconds]);
        }
        command.args(["-x", "RAYON_NUM_THREADS", "-x", PROGRAM, "-x", FOLDER]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture"]);
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[test]
fn link_between_hosts_that_goes_down_ends_job() -> Result<()> {
    if !has_mpi() {
        return Ok(());
    }
    let Some(hosts) = Hosts::new() else {
        eprintln!("there are no network namespaces here: a link that goes down is not tested");
        return Ok(());
    };
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut job = Job::run(hosts.mpirun(folder.path()), 2, "train", folder.path());
    let pids = [0, 1].map(|rank| job.pid(rank));
    std::thread::sleep(Duration::from_millis(300));
    assert!(ip(&["-n", &hosts.names[0], "link", "set", &hosts.names[0], "down"]));
    let status = job.end_within(END);
    let log = job.log();
    assert!(!status.success(), "{log}");
    let silent = format!("rank 1 ({}, pid {}) is silent for 2.", hosts.names[1], pids[1]);
    assert!(log.contains(&silent), "{log}");
    assert!(pids.iter().all(|&pid| !is_alive(pid)), "{log}");
    drop(hosts);
    // on one host, it goes on
    Job::start(3, "train", folder.path(), &[]).succeed();
    assert!(last(folder.path()) == trained_alone()?);
    Ok(())
}

#[test]
fn rank_that_computes_for_long_is_not_lost() {
    if !has_mpi() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    Job::start(2, "compute", folder.path(), &[("DL_SILENCE", "0.6")]).succeed();
    assert!((0..2).all(|rank| folder.path().join(format!("done-{rank}")).exists()));
}

#[test]
fn panic_or_error_of_one_rank_ends_job() {
    if !has_mpi() {
        return;
    }
    let _alone = alone();
    for (program, text) in [("panic", "rank 1: panicked: rank one gives up"), ("error", "rank 1: rank one gives up")] {
        let folder = tempfile::tempdir().unwrap();
        let mut job = Job::start(3, program, folder.path(), &[]);
        job.pid(0);
        let status = job.end_within(END + Duration::from_secs(5));
        assert!(!status.success() && job.log().contains(text), "{program}: {status} {}", job.log());
    }
}

#[test]
fn difference_between_processes_is_error_on_both() {
    if !has_mpi() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let exe = std::env::current_exe().unwrap();
    let copy = folder.path().join("copy");
    fs::copy(&exe, &copy).unwrap();
    // behind its end, a byte of a program is not read
    fs::OpenOptions::new()
        .append(true)
        .open(&copy)
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"!"))
        .unwrap();
    let both = |other: &Path, setting: &str| {
        let mut command = mpirun();
        command.args(["-n", "1"]).arg(&exe).args(["--exact", "child", "--nocapture", ":"]);
        command.args(["-n", "1", "-x", setting]).arg(other).args(["--exact", "child", "--nocapture"]);
        let mut job = Job::run(command, 2, "train", folder.path());
        let status = job.end_within(Duration::from_secs(30));
        assert!(!status.success(), "{}", job.log());
        job.log()
    };
    let log = both(&exe, "DL_INSTRUCTIONS=baseline");
    if dl_core::instructions() != "baseline" {
        assert!(log.contains("differ: instruction set is") && log.contains("baseline on rank 1"), "{log}");
    }
    let log = both(&copy, "NOTHING=1");
    assert!(log.contains("ranks 0 (") && log.contains("differ: build is"), "{log}");
}
