//! Pictures of the path that a pass took.

use crate::scene::Scene;
use crate::{build, dot, svg};
use dl_core::record::PassRecord;
use dl_core::{Error, Module, Result, files};
use std::collections::HashMap;
use std::path::Path;

/// So many parts a picture has at most, if nothing else is said.
const MOST: usize = 60;
/// Fewer would show nothing.
const LEAST: usize = 4;
/// More would take too long to place.
const CEILING: usize = 200;

/// A picture of what a pass did: what was computed from what, which ways were taken, and which were
/// not.
///
/// Values flow downwards. A weight is blue; a decision is a diamond with its condition, dotted
/// lines lead from what it looked at into it, the arm that was taken is a solid way, and the others
/// end in dashed boxes. A box has the time and the bytes of an operation, a bar its share of the
/// time of the longest one, an edge the shape of the value. Functions marked `#[differentiable]`
/// are frames around what they built. A tooltip on each thing says the file, the line, the
/// functions that led there and the exact numbers.
///
/// Plain numbers are left out, but where they are results. Of a training step, the way back is
/// drawn if [asked for](Graph::backward): deltas are green, and stand in frames of their own,
/// `∂ function`.
///
/// # What is folded
///
/// Above sixty parts (see [`at_most`](Graph::at_most)) as little is folded as makes the picture
/// fit, in this order:
///
/// 1. The same operation on the same line in the same functions is one box: `mul ×20`, with the sum
///    of times and bytes. So rounds of a loop are one. Weights that are read by the same boxes are
///    one.
/// 2. Functions are one box each, the innermost first: `ƒ layer`, and `∂ layer` for its deltas.
///    Those that take longest are opened again where there is room.
/// 3. What is left outside of functions is folded by line, and functions by name.
/// 4. What takes least time is one box.
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
    most: usize,
    title: Option<String>,
    /// How variables are called, by their numbers.
    names: HashMap<u64, String>,
}

impl Graph {
    /// Of this pass.
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
        Graph { record: record.clone(), backward: false, most: MOST, title: None, names: HashMap::new() }
    }

    /// Whether the way back is drawn, too. It is not, unless this is called.
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

    /// With at most so many parts, arms of decisions included: 60 if nothing is said, no fewer than
    /// 4 and no more than 200.
    ///
    /// Placing them takes longer than in proportion: of a training step with its way back, 60 parts
    /// take 0.2 s in a release build, 150 one second and 200 three to four. A development build
    /// takes five times as long.
    ///
    /// ```
    /// # let record = dl_core::record::PassRecord::default();
    /// let overview = dl_view::Graph::of(&record).at_most(12);
    /// ```
    #[must_use]
    pub fn at_most(mut self, parts: usize) -> Graph {
        self.most = parts.clamp(LEAST, CEILING);
        self
    }

    /// With the names that its weights and buffers have in this net: paths, as in [`Module`].
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

    /// With this line above it.
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

    /// As SVG, which needs no other program.
    ///
    /// ```
    /// # let record = dl_core::record::PassRecord::default();
    /// assert!(dl_view::Graph::of(&record).svg().ends_with("</svg>\n"));
    /// ```
    pub fn svg(&self) -> String {
        svg::svg(&self.scene())
    }

    /// In the language of Graphviz, which places things anew.
    ///
    /// ```
    /// # let record = dl_core::record::PassRecord::default();
    /// assert!(dl_view::Graph::of(&record).dot().ends_with("}\n"));
    /// ```
    pub fn dot(&self) -> String {
        dot::dot(&self.scene())
    }

    /// Writes a file, by its extension an SVG or DOT. It is there whole or not at all.
    ///
    /// # Errors
    /// When the extension is another one, or the file cannot be written.
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
                let error = Error::invalid("the name of a picture ends in `.svg`, `.dot` or `.gv`");
                return Err(error.context(path.display()));
            }
        };
        files::write_in_folder(path, |file| file.write_all(text.as_bytes()))
    }

    pub(crate) fn scene(&self) -> Scene {
        build::scene(&self.record, &self.names, self.backward, self.most, self.title.as_deref())
    }
}
