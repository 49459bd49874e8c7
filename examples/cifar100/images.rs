//! The images: read from the binary files of CIFAR-100, or generated in the same file format.

use crate::network::{COARSE, FINE};
use dl::data::cifar::{Cifar100, read_100};
use dl::nd::{Nd, init, ndarray::Ix1};
use dl::{Error, Result};
use rand::{Rng, seq::SliceRandom};
use std::fs;
use std::path::Path;

/// The side of an image, and the side of the squares of generated patterns, in pixels.
const SIDE: usize = 32;
const SQUARE: usize = 4;
const SQUARES: usize = 3 * (SIDE / SQUARE) * (SIDE / SQUARE);

/// Reads the files `train.bin` and `test.bin` of a folder.
pub(crate) fn read(folder: &Path) -> Result<[Cifar100; 2]> {
    let read = |name| {
        let images = read_100(folder.join(name))?;
        if images.coarse.is_empty() {
            return Err(Error::invalid(format!("{}: the file has no images", folder.join(name).display())));
        }
        Ok(images)
    };
    Ok([read("train.bin")?, read("test.bin")?])
}

/// Generated images: `of_each_class` training and test images of each fine class. They are written
/// to files and read like CIFAR-100.
pub(crate) fn generated(of_each_class: [usize; 2], seed: u64) -> Result<[Cifar100; 2]> {
    let folder = std::env::temp_dir().join(format!("dl-generated-cifar100-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(Error::other)?;
    let result = generate(&folder, of_each_class, seed).and_then(|()| read(&folder));
    fs::remove_dir_all(&folder).map_err(Error::other)?;
    result
}

/// The image of a class is the sum of a pattern of coloured squares for the coarse class, one for
/// the fine class, and noise.
fn generate(folder: &Path, of_each_class: [usize; 2], seed: u64) -> Result<()> {
    let rng = &mut init::rng(seed);
    let mut patterns = |number: usize, strength: f64| -> Vec<Nd<f32, Ix1>> {
        (0..number).map(|_| init::normal([SQUARES], 0.0, strength, rng)).collect()
    };
    let (coarse_patterns, fine_patterns) = (patterns(COARSE, 15.0), patterns(COARSE * FINE, 15.0));
    for (name, images) in ["train.bin", "test.bin"].into_iter().zip(of_each_class) {
        // As in CIFAR-100, the index of a fine class does not determine its coarse class.
        let mut records: Vec<usize> = (0..COARSE * FINE).flat_map(|fine| vec![fine; images]).collect();
        records.shuffle(rng);
        let mut file = Vec::new();
        for fine in records {
            let coarse = fine % COARSE;
            file.extend([coarse as u8, fine as u8]);
            let noise: Nd<f32, Ix1> = init::normal([3 * SIDE * SIDE], 0.0, 60.0, rng);
            let light = rng.random_range(-20.0..20.0);
            file.extend(noise.view().indexed_iter().map(|(pixel, noise)| {
                let (plane, row, column) = (pixel / (SIDE * SIDE), pixel / SIDE % SIDE, pixel % SIDE);
                let square = (plane * SIDE / SQUARE + row / SQUARE) * (SIDE / SQUARE) + column / SQUARE;
                // The conversion saturates at 0 and 255.
                (128.0 + light + coarse_patterns[coarse][square] + fine_patterns[fine][square] + noise) as u8
            }));
        }
        fs::write(folder.join(name), file).map_err(Error::other)?;
    }
    Ok(())
}

/// The fine classes of each coarse class.
pub(crate) struct Classes([Vec<usize>; COARSE]);

impl Classes {
    /// The classes that occur in these images.
    pub(crate) fn of(images: &Cifar100) -> Result<Self> {
        let mut classes = [const { Vec::new() }; COARSE];
        for (&coarse, &fine) in images.coarse.iter().zip(&images.fine) {
            if !classes[coarse].contains(&fine) {
                classes[coarse].push(fine);
            }
        }
        for (coarse, fine) in classes.iter_mut().enumerate() {
            fine.sort_unstable();
            if fine.len() > FINE {
                return Err(Error::invalid(format!(
                    "the coarse class {coarse} has {} fine classes; in CIFAR-100 each has {FINE}",
                    fine.len()
                )));
            }
        }
        Ok(Classes(classes))
    }

    /// The index of a fine class within its coarse class.
    pub(crate) fn place(&self, coarse: usize, fine: usize) -> Result<usize> {
        self.0[coarse].iter().position(|&other| other == fine).ok_or_else(|| {
            Error::invalid(format!("no training image has the coarse class {coarse} and the fine class {fine}"))
        })
    }
}
