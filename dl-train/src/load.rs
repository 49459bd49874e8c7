//! Loading of weights and buffers from the tensors of a file.

mod matching;
mod reading;

pub(crate) use reading::Plan;

use crate::file::{Kind, TensorFile};
use crate::layout::Layout;
use crate::names::Names;
use crate::report::Report;
use dl_core::module::matches;
use dl_core::{Entry, Error, Module, Result};
use std::path::Path;

/// Options for loading weights and buffers: strict or partial, in which layout, which paths,
/// renaming, and conversion of types.
///
/// The file is read twice. First everything is validated: names, shapes and types, and every element.
/// Then the values are set, one after the other and in one commit: beside the weights of the module,
/// up to four forms of one tensor are in memory: that of the file, the converted, the transposed and the
/// aligned one. A weight that a [`Snapshot`](dl_core::Snapshot) or a pass refers to also stays in memory.
///
/// So a file is loaded as a whole or not at all. A file that another program has changed
/// between the two readings is refused before anything is set. The exception is a change, or a failure of
/// the disk, during the second reading: an error says how many weights are set. A file that is replaced
/// by another one of its name does not change. Training steps, other writes of these weights, and passes
/// on a snapshot wait until all values are set.
///
/// A file is a safetensors file, or an index of several with a name that ends with `.index.json`.
///
/// This loads the encoder from a file with other names and double precision, into a net with a new
/// head:
///
/// ```
/// use dl_core::{Module, Visitor, Weight};
/// use dl_train::{Load, save_weights};
/// # struct Old(Weight<f64>, Weight<f64>);
/// # impl Module for Old {
/// #     fn visit(&self, visitor: &mut Visitor) {
/// #         visitor.field("backbone", &self.0);
/// #         visitor.field("classifier", &self.1);
/// #     }
/// # }
/// struct Net {
///     encoder: Weight<f32>,
///     head: Weight<f32>,
/// }
/// # impl Module for Net {
/// #     fn visit(&self, visitor: &mut Visitor) {
/// #         visitor.field("encoder", &self.encoder);
/// #         visitor.field("head", &self.head);
/// #     }
/// # }
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("old.safetensors");
/// # save_weights(&Old(Weight::new(0.5), Weight::new(0.25)), &path)?;
///
/// let net = Net { encoder: Weight::new(0.0), head: Weight::new(0.0) };
/// let report = Load::strict().only("encoder").rename("backbone", "encoder").convert().weights(&net, &path)?;
/// assert_eq!(report.loaded, ["encoder"]);
/// assert_eq!((net.encoder.value(), net.head.value()), (0.5, 0.0));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Load {
    partial: bool,
    only: Vec<String>,
    ignored: Vec<String>,
    names: Names,
    layout: Option<Layout>,
    transposed: Vec<String>,
    convert: bool,
    scale: Option<String>,
    zero_point: Option<String>,
    allow_non_finite: bool,
}

impl Load {
    /// The file must contain exactly the weights and buffers of the module, with the same shapes
    /// and types.
    pub fn strict() -> Load {
        Load {
            partial: false,
            only: Vec::new(),
            ignored: Vec::new(),
            names: Names::new(),
            layout: None,
            transposed: Vec::new(),
            convert: false,
            scale: None,
            zero_point: None,
            allow_non_finite: false,
        }
    }

    /// The file is a `state_dict` of PyTorch: the names and the layouts are those that the module
    /// declares ([`Torch`](dl_core::Torch)), precisions are converted, and counters of batch
    /// normalisations (`num_batches_tracked`), which no module has here, are ignored. It must
    /// contain the whole module, as for [`strict`](Load::strict).
    ///
    /// ```
    /// use dl_core::Module;
    /// use dl_nd::init;
    /// use dl_nn::Linear;
    /// use dl_train::{Load, save_torch};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("model.safetensors");
    /// let linear = |seed| Linear::<f32>::new(3, 2, &mut init::rng(seed));
    /// let (there, here) = (linear(1)?, linear(2)?);
    /// save_torch(&there, &path)?; // or in Python: safetensors.torch.save_file(net.state_dict(), path)
    /// Load::torch().weights(&here, &path)?;
    /// assert_eq!(here.entry("weight")?.numbers(), there.entry("weight")?.numbers());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn torch() -> Load {
        Load::strict().layout(Layout::Torch).convert()
    }

    /// Loads every weight and buffer that the file contains with a matching shape and type. The
    /// [`Report`] lists the others. It is an error if nothing matches.
    ///
    /// ```
    /// use dl_core::Weight;
    /// use dl_train::{Load, save_weights};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("one.safetensors");
    /// save_weights(&[Weight::new(1.0_f64)], &path)?;
    /// let net = [0.0, 7.0].map(Weight::<f64>::new);
    /// assert!(Load::strict().weights(&net, &path).unwrap_err().to_string().contains("missing in the file: \"1\""));
    /// assert_eq!(Load::partial().weights(&net, &path)?.missing, ["1"]);
    /// assert_eq!((net[0].value(), net[1].value()), (1.0, 7.0));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn partial() -> Load {
        Load { partial: true, ..Load::strict() }
    }

    /// Restricts loading to paths that match `pattern`, in the module and in the file. Several
    /// calls accept paths that match any of the patterns. The syntax is that of
    /// [`freeze_matching`](Module::freeze_matching).
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// use dl_core::Weight;
    /// use dl_train::{Load, save_weights};
    /// save_weights(&[1.0, 2.0, 3.0].map(Weight::<f64>::new), &path)?;
    /// let net = [0.0; 4].map(Weight::<f64>::new);
    /// assert_eq!(Load::strict().only("1").only("2").weights(&net, &path)?.loaded, ["1", "2"]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn only(mut self, pattern: &str) -> Load {
        self.only.push(pattern.to_owned());
        self
    }

    /// Ignores paths that match `pattern`, in the module and in the file.
    ///
    /// ```
    /// // a table of PyTorch that is not learned
    /// dl_train::Load::torch().ignore("embeddings.position_ids");
    /// ```
    pub fn ignore(mut self, pattern: &str) -> Load {
        self.ignored.push(pattern.to_owned());
        self
    }

    /// The layout of a file that does not say which it has: a file that another program wrote. By
    /// default such a file is refused if the module has a weight with another layout in PyTorch,
    /// such as that of a `Linear`: a square one fits either way.
    ///
    /// ```
    /// use dl_train::{Layout, Load};
    /// Load::strict().layout(Layout::Native); // `x · weight`, as here
    /// Load::partial().layout(Layout::Torch); // as `Load::torch`, for some of the weights
    /// ```
    pub fn layout(mut self, layout: Layout) -> Load {
        self.layout = Some(layout);
        self
    }

    /// The weights with paths in the module that match `pattern` have their last two axes exchanged
    /// in the file, compared with the layout. The syntax is that of
    /// [`freeze_matching`](Module::freeze_matching).
    ///
    /// The `Conv1D` of GPT-2 in the Python library `transformers` is a linear layer whose weight is
    /// `[in, out]`, as here, where the layout of PyTorch has `[out, in]`:
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// use dl_macros::Module;
    /// use dl_nd::{Nd, NdWeight, init};
    /// use dl_nn::Linear;
    /// use dl_train::{Load, save_torch};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("gpt2.safetensors");
    /// #[derive(Module)]
    /// # #[module(crate = dl_core)]
    /// struct Conv1D {
    ///     weight: NdWeight,
    /// }
    /// save_torch(&Conv1D { weight: Weight::new(Nd::from([[1.0, 2.0], [3.0, 4.0]])) }, &path)?;
    ///
    /// let linear = Linear::<f32>::without_bias(2, 2, &mut init::rng(1))?;
    /// Load::torch().transposed("weight").weights(&linear, &path)?;
    /// assert_eq!(linear.weight.value(), Nd::from([[1.0, 2.0], [3.0, 4.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn transposed(mut self, pattern: &str) -> Load {
        self.transposed.push(pattern.to_owned());
        self
    }

    /// Maps paths below `in_file` in the file to paths below `in_module` in the module. An empty
    /// path denotes the whole file or module. The first renaming that applies to a name is used.
    /// `{name}` stands for any text without dots; see [`Names`].
    ///
    /// ```
    /// // a file of the whole net into one part of it, and the reverse
    /// dl_train::Load::partial().rename("net.encoder", "");
    /// dl_train::Load::partial().rename("", "net.encoder");
    /// dl_train::Load::torch().rename("encoder.layer.{i}.output.dense", "layers.{i}.linear2");
    /// ```
    pub fn rename(mut self, in_file: &str, in_module: &str) -> Load {
        self.names = self.names.rename(in_file, in_module);
        self
    }

    /// Adds the rules of [`Names`]: renaming, and tensors that are stacked or split. In the layout
    /// of PyTorch, a path in the module may be PyTorch's or its own.
    ///
    /// ```
    /// use dl_train::{Load, Names};
    /// let names = Names::new().stack(&["q.weight", "k.weight", "v.weight"], "attention.in_proj_weight");
    /// Load::torch().names(&names);
    /// ```
    pub fn names(mut self, names: &Names) -> Load {
        self.names.append(names);
        self
    }

    /// Permits conversion between double and single precision; each number is rounded to nearest.
    /// By default different precisions are a misfit. Half precision (`F16`, `BF16`) is always read,
    /// since no weight has it here.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// use dl_core::Weight;
    /// use dl_train::{Load, save_weights};
    /// save_weights(&[Weight::new(0.1_f64)], &path)?;
    /// let net = [Weight::new(0.0_f32)];
    /// assert!(Load::strict().weights(&net, &path).is_err());
    /// Load::strict().convert().weights(&net, &path)?;
    /// assert_eq!(net[0].value(), 0.1);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn convert(mut self) -> Load {
        self.convert = true;
        self
    }

    /// Reads a weight of integers (`I8`, `U8`) as `(q − zero point) · scale`. `{}` in the name of the
    /// scale stands for the name of the weight in the file. A scale is one number, or one for each
    /// index of axis 0 in the file.
    ///
    /// ```
    /// // as the Python library `compressed-tensors` names them
    /// dl_train::Load::torch().scale("{}_scale").zero_point("{}_zero_point");
    /// ```
    pub fn scale(mut self, name: &str) -> Load {
        self.scale = Some(name.to_owned());
        self
    }

    /// The name of the zero point of a [scale](Load::scale). Where the file has none, it is 0.
    ///
    /// ```
    /// dl_train::Load::torch().scale("{}.scale").zero_point("{}.zero");
    /// ```
    pub fn zero_point(mut self, name: &str) -> Load {
        self.zero_point = Some(name.to_owned());
        self
    }

    /// Permits infinite or NaN elements in weights, and NaN in buffers. By default they are an
    /// error.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// use dl_core::Weight;
    /// use dl_train::{Checkpoint, Load};
    /// # let net = [Weight::new(f64::NAN)];
    /// Checkpoint::new().module("net", &net).allow_non_finite().save(&path)?;
    /// let restore = |load| Checkpoint::load(&path)?.restore().with(load).module("net", &net).apply();
    /// assert!(restore(Load::strict()).is_err());
    /// restore(Load::strict().allow_non_finite())?;
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn allow_non_finite(mut self) -> Load {
        self.allow_non_finite = true;
        self
    }

    /// Loads the weights and buffers of a module from a safetensors file, written by this crate or
    /// another program.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged, an element is not finite, or the file does not
    /// fit the module. Then nothing has changed, unless the file could be read once but not twice.
    #[track_caller]
    pub fn weights<M: Module + ?Sized>(&self, module: &M, path: impl AsRef<Path>) -> Result<Report> {
        self.weights_of(module, &TensorFile::open(path.as_ref())?)
    }

    /// Loads the weights and buffers from the bytes of a file; errors call it `name`.
    ///
    /// ```
    /// use dl_core::Weight;
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("net.safetensors");
    /// # dl_train::save_weights(&[Weight::new(1.0_f64)], &path)?;
    /// let bytes = std::fs::read(&path).unwrap(); // or `include_bytes!`
    /// let net = [Weight::new(0.0_f64)];
    /// dl_train::Load::strict().weights_from_bytes(&net, "net.safetensors", bytes)?;
    /// assert_eq!(net[0].value(), 1.0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`weights`](Load::weights).
    #[track_caller]
    pub fn weights_from_bytes<M: Module + ?Sized>(&self, module: &M, name: &str, bytes: Vec<u8>) -> Result<Report> {
        self.weights_of(module, &TensorFile::from_bytes(name, bytes)?)
    }

    #[track_caller]
    fn weights_of<M: Module + ?Sized>(&self, module: &M, file: &TensorFile) -> Result<Report> {
        if file.kind() == Some(Kind::Checkpoint) {
            let error = Error::invalid(
                "this is a checkpoint of a training run, not a file of weights: open it with `Checkpoint::load`",
            );
            return Err(file.with_name(&error));
        }
        let (plan, report) = self.prepare(module, file, "", false)?;
        Plan::set_all(&[plan]).map_err(|error| file.with_name(&error))?;
        Ok(report)
    }

    /// Whether the last two axes of this weight or buffer are exchanged in the file.
    fn exchanges(&self, layout: Layout, entry: &Entry) -> bool {
        let transposed = self.transposed.iter().any(|pattern| matches(pattern, entry.path()));
        layout.exchanges(entry) != (transposed && entry.shape().len() >= 2)
    }

    /// The shape of a weight or a buffer in the file.
    fn shape(&self, layout: Layout, entry: &Entry) -> Vec<usize> {
        let mut shape = entry.shape();
        if self.exchanges(layout, entry) {
            let rank = shape.len();
            shape.swap(rank - 2, rank - 1);
        }
        shape
    }

    pub(crate) fn allows_non_finite(&self) -> bool {
        self.allow_non_finite
    }
}
