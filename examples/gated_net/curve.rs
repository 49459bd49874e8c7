//! The learning curve: training loss (left axis) and test accuracy (right axis) per epoch, as SVG.

use std::{error::Error, fs, path::Path};

use plotters::prelude::*;

use crate::report::Epoch;

const SIZE: (u32, u32) = (720, 420);
const LOSS: RGBColor = RGBColor(200, 80, 30);
const ACCURACY: RGBColor = RGBColor(30, 90, 170);

/// Draws `epochs` to the file `out` and creates its folder. Draws nothing if there are no epochs.
pub(crate) fn draw(out: &Path, epochs: &[Epoch]) -> Result<(), Box<dyn Error + Send + Sync>> {
    if epochs.is_empty() {
        return Ok(());
    }
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder)?;
    }
    // With this feature plotters does not search for system fonts.
    #[cfg(feature = "plot")]
    dl::train::plot::use_built_in_font();
    let mut text = String::new();
    render(SVGBackend::with_string(&mut text, SIZE).into_drawing_area(), epochs).map_err(|error| error.to_string())?;
    Ok(fs::write(out, text)?)
}

fn render<'a>(
    area: DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    epochs: &[Epoch],
) -> Result<(), Box<dyn Error + 'a>> {
    area.fill(&WHITE)?;
    let last = epochs.len().max(2) as f32;
    let top = epochs.iter().map(|epoch| epoch.loss).filter(|loss| loss.is_finite()).fold(0.0_f32, f32::max);
    let top = if top > 0.0 { top * 1.05 } else { 1.0 };
    let worst = epochs.iter().map(|epoch| epoch.test_accuracy).fold(1.0_f32, f32::min);
    let floor = (worst * 10.0).floor().min(9.0) / 10.0;
    let mut chart = ChartBuilder::on(&area)
        .caption("Gated network on handwritten digits", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(56)
        .right_y_label_area_size(60)
        .build_cartesian_2d(1.0..last, 0.0..top)?
        .set_secondary_coord(1.0..last, floor..1.0);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(epochs.len().clamp(2, 10))
        .x_desc("epoch")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_desc("training loss")
        .y_label_formatter(&|y| format!("{y:.2}"))
        .label_style(("sans-serif", 14))
        .draw()?;
    chart
        .configure_secondary_axes()
        .y_desc("test accuracy")
        .y_label_formatter(&|y| format!("{y:.2}"))
        .label_style(("sans-serif", 14))
        .draw()?;
    let points = |value: fn(&Epoch) -> f32| {
        epochs
            .iter()
            .enumerate()
            .map(move |(index, epoch)| ((index + 1) as f32, value(epoch)))
            .filter(|point| point.1.is_finite())
    };
    chart
        .draw_series(LineSeries::new(points(|epoch| epoch.loss), LOSS.stroke_width(2)))?
        .label("training loss")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], LOSS.stroke_width(2)));
    chart
        .draw_secondary_series(LineSeries::new(points(|epoch| epoch.test_accuracy), ACCURACY.stroke_width(2)))?
        .label("test accuracy")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], ACCURACY.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::MiddleRight)
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 14))
        .draw()?;
    area.present()?;
    Ok(())
}
