//! The trainer on a device that counts.

use dl_core::{Result, Weight};
use dl_data::{InMemory, Loader};
use dl_nd::device::Dry;
use dl_nd::ndarray::Ix2;
use dl_nd::{MoveModule, Nd, ops::*};
use dl_optim::{Adam, OptimizerExt};
use dl_train::{Checkpoints, Trainer};

#[test]
fn run_on_a_device_is_saved_and_resumed_there() -> Result<()> {
    let (dry, folder) = (Dry::new(), tempfile::tempdir().unwrap());
    let run = |epochs: u64| -> Result<u64> {
        let net = [Weight::new(Nd::<f32, Ix2>::full([3, 1], 0.5))];
        net.move_to(&dry)?;
        let adam = Adam::new(0.1).clip_norm(1.0);
        let loader = Loader::new(InMemory(vec![[1.0_f32, 2.0, 3.0]; 8]), 4);
        let checkpoints = Checkpoints::in_folder(folder.path());
        let trainer = Trainer::new(&adam, epochs).refuse_non_finite().checkpoints(&checkpoints, &net);
        let batches = |epoch| Ok(loader.epoch(epoch)?.to(&dry));
        let outcome = trainer.run(batches, |x| x.matmul(&net[0]).square().mean())?;
        assert!(net[0].value().device().is_some());
        Ok(outcome.steps)
    };
    assert_eq!(run(2)?, 4);
    assert_eq!(run(3)?, 6, "two more after four");
    Ok(())
}
