//! Pictures of passes.

use crate::open::opened;
use crate::scene::Scene;
use crate::{build, dot, svg};
use dl_core::record::PassRecord;
use dl_core::{Error, Module, Result, files};
use std::collections::HashMap;
use std::path::Path;

/// The default maximal number of parts.
const DEFAULT_MAX_PARTS: usize = 60;
/// The smallest limit on parts; fewer would show nothing.
const MIN_PARTS: usize = 4;
/// The largest limit on parts; more would take too long to lay out.
const MAX_PARTS: usize = 200;

/// A picture of a pass: the values it computed, their dependencies, and the arms taken and not
/// taken.
///
/// Values flow downwards. A weight is blue. A decision is a diamond with its condition: dotted
/// lines lead to it from the values it extracted, a solid line leads to the arm taken, and the
/// other arms are dashed boxes. A box shows the time and the bytes of an operation and a bar for
/// its time relative to the longest; an edge shows the shape of the value. Functions marked
/// `#[differentiable]` are frames around the layers they built. Tooltips give the file, the line,
/// the call chain and the exact numbers.
///
/// Scalar constants are omitted unless they are results. The backward pass of a training step is
/// drawn if [requested](Graph::backward): deltas are green and have frames of their own,
/// `∂ function`.
///
/// # Folding
///
/// A record with more than sixty parts (see [`at_most`](Graph::at_most)) is folded, only as far as
/// necessary, in this order:
///
/// 1. Equal operations on the same line with the same call chain become one box, `mul ×20`, with
///    the sum of their times and bytes. This groups the iterations of a loop. Weights that are read
///    by the same boxes become one.
/// 2. Functions become one box each, innermost first: `ƒ layer`, and `∂ layer` for its deltas.
///    Those that take longest are reopened where there is space.
/// 3. Layers outside functions are grouped by line, and functions by name.
/// 4. The items with the least time become one box.
///
/// ```
/// use dl_core::record::PassRecord;
/// use dl_view::Graph;
/// let nothing = Graph::of(&PassRecord::default());
/// assert!(nothing.svg().starts_with("<svg"));
/// assert!(nothing.dot().starts_with("digraph"));
/// ```
#[derive(Clone, Debug)]
pub struct Graph {
    record: PassRecord,
    backward: bool,
    max_parts: usize,
    title: Option<String>,
    /// The names of variables, by variable id.
    names: HashMap<u64, String>,
}

impl Graph {
    /// A picture of this pass.
    ///
    /// ```
    /// use dl_core::record::Recorder;
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
    /// let (recorder, w) = (Recorder::new(), Weight::new(3.0_f64));
    /// (&w * &w).train(&Sgd::new(0.1)).recorded(&recorder).wait()?;
    /// for pass in &recorder.take().passes {
    ///     assert!(dl_view::Graph::of(pass).svg().contains("mul"));
    /// }
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn of(record: &PassRecord) -> Graph {
        Graph {
            record: record.clone(),
            backward: false,
            max_parts: DEFAULT_MAX_PARTS,
            title: None,
            names: HashMap::new(),
        }
    }

    /// Whether the backward pass is drawn. The default is `false`.
    ///
    /// ```
    /// # let record = dl_core::record::PassRecord::default();
    /// let graph = dl_view::Graph::of(&record).backward(true);
    /// ```
    #[must_use]
    pub fn backward(mut self, drawn: bool) -> Graph {
        self.backward = drawn;
        self
    }

    /// Sets the maximal number of parts, arms of decisions included. The default is 60; the value
    /// is clamped to 4..=200.
    ///
    /// The time of the layout grows faster than linearly: for a training step with its backward
    /// pass, 60 parts take 0.2 s in a release build, 150 take 1 s and 200 take 3 to 4 s. A
    /// development build takes five times as long.
    ///
    /// ```
    /// # let record = dl_core::record::PassRecord::default();
    /// let overview = dl_view::Graph::of(&record).at_most(12);
    /// ```
    #[must_use]
    pub fn at_most(mut self, parts: usize) -> Graph {
        self.max_parts = parts.clamp(MIN_PARTS, MAX_PARTS);
        self
    }

    /// Labels weights and buffers with their paths in this net, as in [`Module`].
    ///
    /// ```
    /// use dl_core::Weight;
    /// use dl_view::Draw;
    /// let net = [2.0, 3.0].map(Weight::<f64>::new);
    /// let dot = (&net[0] * &net[1]).graph().wait()?.named(&(0, net)).dot();
    /// assert!(dot.contains("1.0") && dot.contains("1.1"));
    /// # dl_core::Result::Ok(())
    /// ```
    #[must_use]
    pub fn named<M: Module + ?Sized>(mut self, net: &M) -> Graph {
        for entry in net.entries() {
            self.names.entry(entry.id()).or_insert_with(|| entry.path().to_string());
        }
        self
    }

    /// Sets the title, the first line above the picture.
    ///
    /// ```
    /// # let record = dl_core::record::PassRecord::default();
    /// assert!(dl_view::Graph::of(&record).title("one digit").svg().contains("one digit"));
    /// ```
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Graph {
        self.title = Some(title.into());
        self
    }

    /// The picture as a self-contained SVG.
    ///
    /// ```
    /// # let record = dl_core::record::PassRecord::default();
    /// assert!(dl_view::Graph::of(&record).svg().ends_with("</svg>\n"));
    /// ```
    pub fn svg(&self) -> String {
        svg::svg(&self.scene())
    }

    /// The picture in DOT, the language of Graphviz, without positions.
    ///
    /// ```
    /// # let record = dl_core::record::PassRecord::default();
    /// assert!(dl_view::Graph::of(&record).dot().ends_with("}\n"));
    /// ```
    pub fn dot(&self) -> String {
        dot::dot(&self.scene())
    }

    /// Writes the picture to a file, SVG or DOT by the extension (`.svg`, `.dot` or `.gv`). The
    /// file is replaced atomically.
    ///
    /// # Errors
    /// If the extension is another one, or if the file cannot be written.
    ///
    /// ```
    /// # let record = dl_core::record::PassRecord::default();
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = |name: &str| folder.path().join(name);
    /// dl_view::Graph::of(&record).save(path("pass.svg"))?;
    /// assert!(dl_view::Graph::of(&record).save(path("pass.txt")).unwrap_err().is_invalid());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let text = match extension.to_ascii_lowercase().as_str() {
            "svg" => self.svg(),
            "dot" | "gv" => self.dot(),
            _ => {
                let error = Error::invalid("the file name of a picture must end in `.svg`, `.dot` or `.gv`");
                return Err(error.context(path.display()));
            }
        };
        files::write_in_folder(path, |file| file.write_all(text.as_bytes()))
    }

    pub(crate) fn scene(&self) -> Scene {
        build::scene(&opened(&self.record), &self.names, self.backward, self.max_parts, self.title.as_deref())
    }
}
