//! How the ranks of a program are started.

use dl_core::{Error, Result};
use std::time::Duration;

/// The number of ranks and the launcher, from the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launch {
    /// So many ranks, as threads of this process.
    Threads(usize),
    /// A launcher of MPI has started this process beside others.
    #[cfg_attr(not(has_mpi), allow(dead_code, reason = "it is an error without MPI"))]
    Mpi,
}

/// Variables with the number of processes that a launcher has started: those of Open MPI, of MPICH
/// and `srun --mpi=pmi2`, and of `srun --mpi=pmix`, which has no other one than the number of this
/// process.
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
const NUMBERS: [&str; 2] = ["PMIX_RANK", "PMI_RANK"];
/// Of `srun`, beside those above.
const TASKS: &str = "SLURM_STEP_NUM_TASKS";

/// The number of ranks that are threads.
const RANKS: &str = "DL_RANKS";
/// The seconds after which a silent rank counts as lost.
const SILENCE: &str = "DL_SILENCE";

/// Reads the environment, given as a function from the name of a variable to its value.
///
/// # Errors
/// If a launcher has started other processes, and this build has no MPI or `DL_RANKS` asks for
/// threads. Each process would train by itself. Also if a number is wrong.
pub(crate) fn launch(variable: impl Fn(&str) -> Option<String>) -> Result<Launch> {
    let set = |name: &&&str| variable(name).is_some();
    let launcher = SIZES.iter().chain(&NUMBERS).find(set);
    let size = SIZES.iter().find_map(|name| variable(name)).or_else(|| variable(TASKS));
    let is_alone = launcher.is_none() || size.is_some_and(|size| size.trim() == "1");
    let ranks = variable(RANKS);
    if let (false, Some(name)) = (is_alone, launcher) {
        let started = format!("this process was started beside others, by `mpirun` or `srun` ({name} is set)");
        return match (ranks, cfg!(feature = "mpi"), cfg!(has_mpi)) {
            (Some(ranks), ..) => {
                Err(Error::invalid(format!("{started}, and {RANKS}={ranks} asks for ranks that are threads")))
            }
            (None, true, true) => Ok(Launch::Mpi),
            (None, true, false) => Err(Error::invalid(format!(
                "{started}, but the library was built where there was no MPI: install it (`mpicc`), and build again with MPICC=mpicc"
            ))),
            (None, false, _) => {
                Err(Error::invalid(format!("{started}, but the library was built without its feature `dist-mpi`")))
            }
        };
    }
    let ranks = ranks.map_or(Ok(1), |ranks| {
        ranks.parse().map_err(|_| Error::invalid(format!("{RANKS}={ranks}: it must be a number")))
    });
    ranks.map(Launch::Threads)
}

/// The time after which a silent rank counts as lost.
///
/// # Errors
/// If the variable is no number of seconds above 0.
#[cfg_attr(not(has_mpi), allow(dead_code, reason = "threads end together"))]
pub(crate) fn silence(variable: impl Fn(&str) -> Option<String>) -> Result<Duration> {
    let Some(text) = variable(SILENCE) else { return Ok(Duration::from_millis(2500)) };
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
    let silence = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    silence.ok_or_else(|| Error::invalid(format!("{SILENCE}={text}: it must be a number of seconds")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Launch> {
        launch(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn ranks_are_threads_without_launcher() {
        assert_eq!(of(&[]).unwrap(), Launch::Threads(1));
        assert_eq!(of(&[("DL_RANKS", "4")]).unwrap(), Launch::Threads(4));
        assert!(of(&[("DL_RANKS", "four")]).unwrap_err().to_string().contains("DL_RANKS=four"));
        // a job of one process
        assert_eq!(of(&[("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0")]).unwrap(), Launch::Threads(1));
        assert_eq!(of(&[("PMIX_RANK", "0"), ("SLURM_STEP_NUM_TASKS", "1")]).unwrap(), Launch::Threads(1));
        assert_eq!(of(&[("SLURM_STEP_NUM_TASKS", "8")]).unwrap(), Launch::Threads(1));
    }

    #[test]
    fn launcher_is_recognised_or_refused() {
        let launchers: [&[(&str, &str)]; 4] = [
            &[("OMPI_COMM_WORLD_SIZE", "2"), ("PMIX_RANK", "1")],
            &[("PMI_SIZE", "16"), ("PMI_RANK", "3")],
            &[("PMIX_RANK", "1"), ("SLURM_STEP_NUM_TASKS", "8")],
            &[("PMIX_RANK", "0")],
        ];
        for variables in launchers {
            let launched = of(variables);
            if cfg!(has_mpi) {
                assert_eq!(launched.unwrap(), Launch::Mpi);
            } else {
                let error = launched.unwrap_err().to_string();
                assert!(error.contains(variables[0].0) && error.contains("built"), "{error}");
            }
            let both = [variables, &[("DL_RANKS", "2")]].concat();
            assert!(of(&both).unwrap_err().to_string().contains("DL_RANKS=2 asks for ranks that are threads"));
        }
    }

    #[test]
    fn silence_is_seconds() {
        let of = |value: Option<&str>| silence(|_| value.map(str::to_owned));
        assert_eq!(of(None).unwrap(), Duration::from_millis(2500));
        assert_eq!(of(Some("0.5")).unwrap(), Duration::from_millis(500));
        for wrong in ["0", "-1", "soon", "NaN", "1e300"] {
            assert!(of(Some(wrong)).unwrap_err().to_string().contains(wrong));
        }
    }
}
