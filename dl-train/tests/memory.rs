//! Beside the weights of a module, loading has one tensor in memory, whatever the type and the layout
//! of the file.

use dl_core::{Module, Result, Snapshot, Weight};
use dl_nd::Nd;
use dl_nd::ndarray::Ix2;
use dl_nn::Linear;
use dl_train::{Load, save_torch, save_weights};
use std::fs;
use std::path::Path;

#[path = "../../tests/memory/allocator.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod allocator;

#[global_allocator]
static COUNTING: allocator::Counting = allocator::Counting;

const TENSORS: usize = 16;
const SIDE: usize = 256;
/// The size of a tensor here.
const TENSOR: isize = (4 * SIDE * SIDE) as isize;

fn net() -> Vec<Linear> {
    let weight = || Weight::new(Nd::<f32, Ix2>::full([SIDE, SIDE], 0.5));
    (0..TENSORS).map(|_| Linear { weight: weight(), bias: None }).collect()
}

/// The same tensors in two files, and their index.
fn shards(folder: &Path) -> Result<std::path::PathBuf> {
    let mut map = Vec::new();
    for shard in 0..2 {
        let name = format!("model-{shard}.safetensors");
        let half = net()[..TENSORS / 2].to_vec();
        let names = dl_train::Names::new();
        let names = (0..TENSORS / 2).fold(names, |names, i| {
            let place = shard * TENSORS / 2 + i;
            map.push(format!("\"{place}.weight\": \"{name}\""));
            names.rename(&format!("{place}.weight"), &format!("{i}.weight"))
        });
        dl_train::save_torch_as(&half, &names, folder.join(name))?;
    }
    let index = folder.join("model.safetensors.index.json");
    fs::write(&index, format!("{{\"weight_map\": {{{}}}}}", map.join(", "))).unwrap();
    Ok(index)
}

/// A single test, since the allocator counts for the whole process.
#[test]
fn loading_needs_memory_for_one_tensor() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let [native, torch, double] = ["native", "torch", "double"].map(|name| folder.path().join(name));
    save_weights(&net(), &native)?;
    save_torch(&net(), &torch)?;
    let wide = |_| Linear { weight: Weight::new(Nd::<f64, Ix2>::full([SIDE, SIDE], 0.5)), bias: None };
    save_torch(&(0..TENSORS).map(wide).collect::<Vec<Linear<f64>>>(), &double)?;
    let values = TENSORS as isize * TENSOR;
    // a tensor as in the file (twice as large in double precision), or before its axes are exchanged;
    // that of the weight; and a buffer of the pool, for an aligned copy.
    for (path, load, tensors) in [
        (native, Load::strict(), 3),
        (torch, Load::torch(), 3),
        (double, Load::torch(), 4),
        (shards(folder.path())?, Load::torch(), 3),
    ] {
        let net = net();
        dl_core::buffers::release();
        let (report, peak) = allocator::peak_of(|| load.weights(&net, &path));
        assert_eq!(report?.loaded.len(), net.entries().len());
        let most = tensors * TENSOR + TENSOR / 2; // and some buffers
        assert!(peak < most, "{}: {peak} bytes, of {values} bytes of weights", path.display());

        let held = Snapshot::take(); // keeps the old values
        let (report, peak) = allocator::peak_of(|| load.weights(&net, &path));
        assert_eq!(report?.loaded.len(), net.entries().len());
        assert!((values..values + most).contains(&peak), "{}: {peak} bytes with a snapshot", path.display());
        drop(held);
    }
    Ok(())
}
