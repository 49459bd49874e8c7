//! Plots of training curves as SVG or PNG.
//!
//! ```
//! use dl_train::{Record, plot::Curves};
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = |name: &str| folder.path().join(name);
//! let epoch = |epoch: u64| Record::new(epoch, 10 * epoch).with("loss", 1.0 / (epoch + 1) as f64)?.with("accuracy", 0.9);
//! let epochs = (0..5).map(epoch).collect::<dl_core::Result<Vec<_>>>()?; // `outcome.epochs` of a `Trainer`
//! Curves::of(&epochs).title("digits").save(path("curves.svg"))?;
//! Curves::of(&epochs).panel("loss", ["loss"]).save(path("curves.png"))?;
//! # dl_core::Result::Ok(())
//! ```
//!
//! Text in PNGs uses the built-in Latin and Greek letters of DejaVu Sans.

use crate::record::Record;
use dl_core::{Error, Result, files};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Once;

/// A figure of the numbers in records over the epochs, with a panel per number or as chosen with
/// [`panel`](Curves::panel). Numbers that are not finite are left out.
#[derive(Clone, Debug)]
pub struct Curves<'a> {
    records: &'a [Record],
    title: String,
    panels: Vec<(String, Vec<String>)>,
}

/// Sizes of a panel and of the title, in pixels of an SVG.
const WIDTH: u32 = 640;
const HEIGHT: u32 = 280;
const TITLE: u32 = 40;
/// The largest number of panels; drawing this many as a PNG takes half a gigabyte.
const MAX_PANELS: usize = 64;
/// Pixels of a PNG per pixel of an SVG, in each direction.
const PIXEL_RATIO: usize = 2;
/// The factor of supersampling of a PNG in each direction, for antialiasing.
const SUPERSAMPLING: usize = 2;

/// The colour-blind safe palette of Okabe and Ito.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];
const INK: RGBColor = RGBColor(60, 60, 60);
const GRID: RGBColor = RGBColor(228, 228, 228);

impl<'a> Curves<'a> {
    /// A figure of all numbers of the records, each in its own panel.
    pub fn of(records: &'a [Record]) -> Curves<'a> {
        Curves { records, title: String::new(), panels: Vec::new() }
    }

    /// Sets the title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = single_line(title);
        self
    }

    /// Adds a panel with the given numbers on one axis. Once a panel was added, only the added
    /// panels are drawn.
    ///
    /// ```
    /// # let outcome: Vec<dl_train::Record> = Vec::new();
    /// let curves = dl_train::plot::Curves::of(&outcome).panel("perplexity", ["perplexity", "test perplexity"]);
    /// ```
    #[must_use]
    pub fn panel<N: Into<String>>(mut self, title: impl Into<String>, names: impl IntoIterator<Item = N>) -> Self {
        self.panels.push((single_line(title), names.into_iter().map(Into::into).collect()));
        self
    }

    /// Writes the figure atomically, as SVG or PNG by the extension of `path`.
    ///
    /// # Errors
    /// When there are no records, no numbers or more than 64 panels, a name is not in the records,
    /// the extension is neither `svg` nor `png`, or the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let with_path = |error: Error| error.context(path.display());
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let bytes = match extension.to_ascii_lowercase().as_str() {
            "svg" => self.svg().map(String::into_bytes),
            "png" => self.png(),
            _ => Err(Error::invalid("the file name of a figure must end in `.svg` or `.png`")),
        };
        let bytes = bytes.map_err(with_path)?;
        files::write_in_folder(path, |file| file.write_all(&bytes))
    }

    fn svg(&self) -> Result<String> {
        let panels = self.panels_to_draw()?;
        let (mut text, size) = (String::new(), self.size(panels.len()));
        draw(SVGBackend::with_string(&mut text, size).into_drawing_area(), 1.0, &self.title, &panels)?;
        Ok(text)
    }

    fn png(&self) -> Result<Vec<u8>> {
        let panels = self.panels_to_draw()?;
        let (width, height) = self.size(panels.len());
        let (width, height) = (width as usize * PIXEL_RATIO, height as usize * PIXEL_RATIO);
        let mut large = vec![0; 3 * width * height * SUPERSAMPLING * SUPERSAMPLING];
        let size = ((width * SUPERSAMPLING) as u32, (height * SUPERSAMPLING) as u32);
        let area = BitMapBackend::with_buffer(&mut large, size).into_drawing_area();
        draw(area, (PIXEL_RATIO * SUPERSAMPLING) as f64, &self.title, &panels)?;

        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().map_err(Error::other)?;
        writer.write_image_data(&downsample(&large, width, height)).map_err(Error::other)?;
        writer.finish().map_err(Error::other)?;
        Ok(bytes)
    }

    fn size(&self, panels: usize) -> (u32, u32) {
        (WIDTH, HEIGHT * panels as u32 + if self.title.is_empty() { 0 } else { TITLE })
    }

    /// The panels to draw, with the points of their curves.
    fn panels_to_draw(&self) -> Result<Vec<Panel<'_>>> {
        if self.records.is_empty() {
            return Err(Error::invalid("no records: there is nothing to draw"));
        }
        let points_of = |name: &'_ str| -> Result<Vec<(f64, f64)>> {
            let points = self.records.iter().filter_map(|record| Some((record.epoch as f64 + 1.0, record.get(name)?)));
            let finite: Vec<(f64, f64)> = points.filter(|point| point.1.is_finite()).collect();
            if finite.is_empty() {
                return Err(Error::invalid(format!("no record has a finite number {name:?}")));
            }
            Ok(finite)
        };
        let mut panels = Vec::new();
        for (title, names) in &self.panels {
            let curves = names.iter().map(|name| Ok((name.as_str(), points_of(name)?))).collect::<Result<Vec<_>>>()?;
            if curves.is_empty() {
                return Err(Error::invalid(format!("the panel {title:?} has no curves")));
            }
            panels.push(Panel { title, curves });
        }
        if self.panels.is_empty() {
            let mut known = HashSet::new();
            let names = self.records.iter().flat_map(Record::values).map(|(name, _)| name);
            for name in names.filter(|&name| known.insert(name)) {
                panels.push(Panel { title: name, curves: vec![(name, points_of(name)?)] });
            }
        }
        if panels.is_empty() {
            return Err(Error::invalid("the records have no numbers: there is nothing to draw"));
        }
        if panels.len() > MAX_PANELS {
            let count = panels.len();
            return Err(Error::invalid(format!(
                "a figure of {count} panels: at most {MAX_PANELS} fit; select some with `panel`"
            )));
        }
        Ok(panels)
    }
}

/// Replaces control characters, which SVG does not permit.
fn single_line(title: impl Into<String>) -> String {
    title.into().replace(char::is_control, " ")
}

struct Panel<'a> {
    title: &'a str,
    curves: Vec<(&'a str, Vec<(f64, f64)>)>,
}

/// An axis in units of a power of ten, so that coordinates are of order 1.
struct Axis {
    power: i32,
    range: Range<f64>,
}

impl Axis {
    /// An axis that covers the numbers plus a relative margin.
    fn of(numbers: impl Iterator<Item = f64> + Clone, margin: f64) -> Axis {
        let greatest = numbers.clone().map(f64::abs).fold(0.0, f64::max);
        let power = if greatest > 0.0 { greatest.log10().floor().clamp(-300.0, 308.0) as i32 } else { 0 };
        let unit = 10_f64.powi(power);
        let (least, most) = numbers
            .map(|number| number / unit)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        let margin = if most - least > 1e-6 { margin * (most - least) } else { 0.5 };
        Axis { power, range: least - margin..most + margin }
    }

    fn to_axis(&self, number: f64) -> f64 {
        number / 10_f64.powi(self.power)
    }

    fn axis_to_value(&self, place: f64) -> f64 {
        place * 10_f64.powi(self.power)
    }

    /// The label of a tick.
    fn label(&self, place: f64) -> String {
        let width = self.range.end - self.range.start;
        // a tick at zero may be off by a rounding error
        let number = if place.abs() < 1e-9 * width { 0.0 } else { self.axis_to_value(place) };
        // the decimals needed to distinguish adjacent ticks
        let digits = (1.0 - (width / 6.0).log10()).floor().max(0.0) as i32;
        match (digits - self.power).max(0) {
            digits if digits <= 6 && self.power < 6 => format!("{number:.0$}", digits as usize),
            _ => format!("{number:.0$e}", digits as usize),
        }
    }
}

/// Registers the built-in font as `sans-serif` for all figures that this program draws with
/// `plotters`. With the features enabled here, `plotters` does not look for system fonts.
/// [`Curves`] register it automatically.
///
/// ```
/// dl_train::plot::use_built_in_font();
/// ```
pub fn use_built_in_font() {
    static FONT: Once = Once::new();
    FONT.call_once(|| {
        // cannot fail: a test draws with this font
        let _ = register_font("sans-serif", FontStyle::Normal, include_bytes!("plot/DejaVuSans.ttf"));
    });
}

fn draw<B: DrawingBackend>(area: DrawingArea<B, Shift>, scale: f64, title: &str, panels: &[Panel<'_>]) -> Result<()> {
    use_built_in_font();
    let px = |pixels: u32| (f64::from(pixels) * scale) as u32;
    let to_error = |error: DrawingAreaErrorKind<B::ErrorType>| Error::other(error.to_string());
    area.fill(&WHITE).map_err(to_error)?;
    let area = if title.is_empty() {
        area
    } else {
        let (above, below) = area.split_vertically(px(TITLE));
        let style = ("sans-serif", px(20)).into_font().color(&INK);
        above.draw_text(title, &style, (px(16) as i32, px(14) as i32)).map_err(to_error)?;
        below
    };
    for (area, panel) in area.split_evenly((panels.len(), 1)).iter().zip(panels) {
        draw_panel(area, &px, panel).map_err(to_error)?;
    }
    area.present().map_err(to_error)
}

fn draw_panel<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    px: &dyn Fn(u32) -> u32,
    panel: &Panel<'_>,
) -> std::result::Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let points = || panel.curves.iter().flat_map(|(_, points)| points);
    let (xs, ys) = (Axis::of(points().map(|point| point.0), 0.02), Axis::of(points().map(|point| point.1), 0.06));
    // at most one tick per epoch
    let epochs = xs.axis_to_value(xs.range.end) - xs.axis_to_value(xs.range.start) + 1.0;
    let mut chart = ChartBuilder::on(area)
        .margin(px(12))
        .caption(panel.title, ("sans-serif", px(15)).into_font().color(&INK))
        .x_label_area_size(px(38))
        .y_label_area_size(px(56))
        .build_cartesian_2d(xs.range.clone(), ys.range.clone())?;
    let text = ("sans-serif", px(12)).into_font().color(&INK);
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.stroke_width(px(1)))
        .axis_style(INK.stroke_width(px(1)))
        .label_style(text.clone())
        .axis_desc_style(text.clone())
        .set_all_tick_mark_size(px(4))
        .x_desc("epoch")
        .x_labels((epochs as usize).min(11))
        .y_labels(6)
        .x_label_formatter(&|&x| format!("{:.0}", xs.axis_to_value(x)))
        .y_label_formatter(&|&y| ys.label(y))
        .draw()?;
    let labelled = panel.curves.len() > 1 || panel.curves[0].0 != panel.title;
    for ((name, points), colour) in panel.curves.iter().zip(COLOURS.iter().cycle()) {
        let line = colour.stroke_width(px(2));
        let points: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (xs.to_axis(x), ys.to_axis(y))).collect();
        let drawn = chart.draw_series(LineSeries::new(points.iter().copied(), line))?;
        if labelled {
            let (length, thick) = (px(18) as i32, px(2));
            drawn
                .label(*name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + length, y)], colour.stroke_width(thick)));
        }
        if let [only] = points[..] {
            chart.draw_series([Circle::new(only, px(3), colour.filled())])?;
        }
    }
    if !labelled {
        return Ok(());
    }
    // place the legend away from the ends of the curves
    let middle = (ys.range.start + ys.range.end) / 2.0;
    let ends = panel.curves.iter().filter_map(|(_, points)| points.last()).filter(|end| ys.to_axis(end.1) > middle);
    let above = 2 * ends.count() > panel.curves.len();
    chart
        .configure_series_labels()
        .position(if above { SeriesLabelPosition::LowerRight } else { SeriesLabelPosition::UpperRight })
        .margin(px(8))
        .legend_area_size(px(24))
        .label_font(text)
        .background_style(WHITE.mix(0.85))
        .draw()
}

/// Downsamples an image by the supersampling factor; each pixel is a mean.
fn downsample(large: &[u8], width: usize, height: usize) -> Vec<u8> {
    let pixel = |row: usize, column: usize, colour: usize| {
        let each = (0..SUPERSAMPLING * SUPERSAMPLING).map(|part| {
            let (row, column) =
                (row * SUPERSAMPLING + part / SUPERSAMPLING, column * SUPERSAMPLING + part % SUPERSAMPLING);
            u32::from(large[3 * (row * width * SUPERSAMPLING + column) + colour])
        });
        (each.sum::<u32>() / (SUPERSAMPLING * SUPERSAMPLING) as u32) as u8
    };
    let row_pixels = |row| (0..width).flat_map(move |column| (0..3).map(move |colour| pixel(row, column, colour)));
    (0..height).flat_map(row_pixels).collect()
}
