//! Figures: what is in them, and what cannot be drawn.

use dl_core::Result;
use dl_train::{Record, plot::Curves};
use std::fs;

fn epochs(count: u64) -> Result<Vec<Record>> {
    let epoch = |epoch: u64| {
        let time = epoch as f64 / 10.0;
        let test = if epoch == 3 { f64::NAN } else { 0.3 + 2.0 * (-0.8 * time).exp() };
        let accuracy = 1.0 - 0.9 * (-time).exp() - 0.01 * (7.0 * time).sin().abs();
        Record::new(epoch, 45 * (epoch + 1))
            .with("loss", 2.3 * (-time).exp() + 0.05)?
            .with("test loss", test)?
            .with("test accuracy", accuracy)
    };
    (0..count).map(epoch).collect()
}

#[test]
fn figure_contains_titles_curves_and_text() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let epochs = epochs(30)?;
    let curves = Curves::of(&epochs)
        .title("handwritten digits <1 & 2>")
        .panel("cross entropy", ["loss", "test loss"])
        .panel("accuracy", ["test accuracy"]);
    let (svg, png) = (folder.path().join("new/curves.svg"), folder.path().join("curves.PNG"));
    curves.save(&svg)?;
    curves.save(&png)?;

    let text = fs::read_to_string(svg).unwrap();
    assert!(text.starts_with("<svg width=\"640\" height=\"600\""));
    for part in
        ["handwritten digits &lt;1 &amp; 2&gt;", "cross entropy", "test loss", "test accuracy", "epoch", "<polyline"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let mut reader = png::Decoder::new(std::io::BufReader::new(fs::File::open(&png).unwrap())).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (1280, 1200));
    // the colours of both curves, the text and the background
    for colour in [[255, 255, 255], [0, 114, 178], [213, 94, 0], [60, 60, 60]] {
        assert!(pixels.chunks(3).any(|pixel| pixel == colour), "{colour:?}");
    }
    // the title is drawn
    let title = pixels[..3 * 1280 * 70].chunks(3).filter(|pixel| pixel[0] < 128).count();
    assert!((1000..20_000).contains(&title), "{title}");
    if let Some(keep) = std::env::var_os("DL_KEEP_FIGURE") {
        fs::copy(png, keep).unwrap();
    }
    Ok(())
}

#[test]
fn extreme_values_are_drawn() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    Curves::of(&epochs(1)?).save(folder.path().join("a.png"))?;
    let path = folder.path().join("a.svg");
    for values in [[0.0, 0.0], [1e-300, 1e300], [-1e-9, 1e-9], [f64::MIN, f64::MAX], [5e5, 5e5 + 1e-6]] {
        let records = [Record::new(0, 1).with("x", values[0])?, Record::new(1, 2).with("x", values[1])?];
        Curves::of(&records).save(&path)?;
    }
    Ok(())
}

/// The texts of an SVG.
fn texts(svg: &str) -> Vec<&str> {
    let lines: Vec<&str> = svg.lines().collect();
    lines.windows(2).filter(|pair| pair[0].starts_with("<text")).map(|pair| pair[1]).collect()
}

#[test]
fn tick_labels_are_distinct() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.svg");
    let texts_found = |records: &[Record]| -> Result<Vec<String>> {
        Curves::of(records).save(&path)?;
        Ok(texts(&fs::read_to_string(&path).unwrap()).into_iter().map(str::to_owned).collect())
    };
    for epochs in [&[4][..], &[0], &[0, 1], &[99, 100, 101], &[0, 1, 2, 3], &[u64::MAX]] {
        let record = |&epoch: &u64| Record::new(epoch, 1).with("x", -2.5);
        let mut texts_found = texts_found(&epochs.iter().map(record).collect::<Result<Vec<_>>>()?)?;
        let all = texts_found.len();
        assert!(all >= 2 + epochs.len(), "{texts_found:?}");
        texts_found.sort();
        texts_found.dedup();
        assert_eq!(texts_found.len(), all, "tick labels must be distinct: {texts_found:?}");
    }
    let zeros = texts_found(&[Record::new(0, 1).with("x", 0.0)?, Record::new(1, 2).with("x", 0.0)?])?;
    assert!(zeros.iter().any(|mark| mark == "0.0") && !zeros.iter().any(|mark| mark == "-0.0"), "{zeros:?}");
    Ok(())
}

/// Every number gets a panel, also one that first appears in a later epoch.
#[test]
fn number_of_later_epoch_gets_panel() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.svg");
    let records = [Record::new(0, 1).with("loss", 1.0)?, Record::new(1, 2).with("accuracy", 0.5)?.with("loss", 0.5)?];
    Curves::of(&records).title("one\u{0}\nline\u{7}").save(&path)?;
    let text = fs::read_to_string(&path).unwrap();
    let texts_found = texts(&text);
    assert!(["one  line ", "loss", "accuracy"].iter().all(|name| texts_found.contains(name)), "{texts_found:?}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
    Ok(())
}

#[test]
fn figure_without_content_or_format_is_refused() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let (epochs, path) = (epochs(3)?, folder.path().join("a.svg"));
    let message = |curves: Curves<'_>, name: &str| curves.save(folder.path().join(name)).unwrap_err().to_string();
    assert!(message(Curves::of(&[]), "a.svg").contains("no records"));
    assert!(message(Curves::of(&epochs), "a.jpg").contains("must end in `.svg` or `.png`"));
    assert!(message(Curves::of(&epochs).panel("x", ["f1"]), "a.svg").contains("no record has a finite number \"f1\""));
    assert!(message(Curves::of(&epochs).panel("x", [""; 0]), "a.svg").contains("has no curves"));
    assert!(message(Curves::of(&[Record::new(0, 1)]), "a.svg").contains("the records have no numbers"));
    let wide = (0..1000).try_fold(Record::new(0, 1), |record, number| record.with(format!("{number}"), 1.0))?;
    assert!(message(Curves::of(&[wide]), "a.png").contains("a figure of 1000 panels: at most 64"));
    assert!(!path.exists());
    Ok(())
}
