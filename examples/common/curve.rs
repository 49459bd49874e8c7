//! A plot of accuracy over cost for several thresholds of an early exit.

use plotters::prelude::*;
use std::error::Error;
use std::fs;
use std::path::Path;

/// Plots the points `(cost, accuracy)`, with the chosen one circled.
pub(crate) fn draw(cost: &str, curve: &[(f64, f64)], chosen: (f64, f64), out: &Path) -> Result<(), Box<dyn Error>> {
    plot(cost, curve, chosen, out).map_err(|error| format!("{} cannot be drawn: {error}", out.display()).into())
}

fn plot(cost: &str, curve: &[(f64, f64)], chosen: (f64, f64), out: &Path) -> Result<(), Box<dyn Error>> {
    let colour = RGBColor(30, 90, 170);
    let most = curve.iter().map(|point| point.0).fold(0.0, f64::max);
    let worst = curve.iter().map(|point| point.1).fold(1.0, f64::min);
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder)?;
    }
    dl::train::plot::use_built_in_font();
    let area = SVGBackend::new(out, (720, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("Early exit: accuracy over cost, the chosen threshold circled", ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(42)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..1.05 * most, worst - 0.01..1.0)?;
    let mesh = &mut chart.configure_mesh();
    mesh.x_desc(cost).y_desc("accuracy on held-out data");
    mesh.x_label_formatter(&|x| format!("{x:.0}")).y_label_formatter(&|y| format!("{y:.3}"));
    mesh.light_line_style(TRANSPARENT).bold_line_style(BLACK.mix(0.12)).label_style(("sans-serif", 14)).draw()?;
    chart.draw_series(LineSeries::new(curve.iter().copied(), colour.stroke_width(2)))?;
    chart.draw_series(curve.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
    chart.draw_series([Circle::new(chosen, 7, RGBColor(200, 80, 30).stroke_width(2))])?;
    area.present()?;
    Ok(())
}
