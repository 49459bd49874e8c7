//! The CSV reader: content of the frames, and messages of the errors.

use dl_core::Result;
use dl_data::{Csv, Frame, Source};
use dl_nd::Nd;

fn read(csv: &Csv, file: &[u8]) -> Result<Frame<f64>> {
    csv.read(Source::memory("x.csv", file))
}

fn error(csv: &Csv, file: &[u8]) -> String {
    let error = read(csv, file).unwrap_err();
    assert!(error.is_invalid());
    error.to_string().strip_prefix("x.csv: ").expect("names the file").to_owned()
}

#[test]
fn csv_with_bom_crlf_and_quotes_is_read() {
    let file = "\u{feff}size, y ,kind\r\n\r\n1.5,-2e3,\"b, \"\"the\"\" one\"\r\n\" 2 \",3,a";
    let frame = read(&Csv::new().target("y").label("kind"), file.as_bytes()).unwrap();
    assert_eq!(frame.names, ["size"]);
    assert_eq!(frame.features, Nd::from([[1.5], [2.0]]));
    assert_eq!(frame.targets, Nd::from([[-2000.0], [3.0]]));
    assert_eq!(frame.classes, ["a", "b, \"the\" one"]);
    assert_eq!(frame.labels, [1, 0]);
}

#[test]
fn csv_without_header_selects_columns_by_number() {
    let csv = Csv::new().header(false).delimiter(b';').comment(b'#').features([2, 0]).target(1);
    let frame = read(&csv, b"# first\n1;2;3\n#\n4;5;6\n").unwrap();
    assert_eq!((frame.features, frame.targets), (Nd::from([[3.0, 1.0], [6.0, 4.0]]), Nd::from([[2.0], [5.0]])));
    assert!(frame.names.is_empty() && frame.labels.is_empty());
}

#[test]
fn class_order_is_independent_of_row_order() {
    let kinds = |file: &[u8]| {
        let frame = read(&Csv::new().label("k"), file).unwrap();
        (frame.classes, frame.labels)
    };
    assert_eq!(kinds(b"k\nb\na\nb\n"), (vec!["a".into(), "b".into()], vec![1, 0, 1]));
    assert_eq!(kinds(b"k\n10\n9\n-1\n"), (vec!["-1".into(), "9".into(), "10".into()], vec![2, 1, 0]));
    assert_eq!(kinds(b"k\n10\n9\nx\n"), (vec!["10".into(), "9".into(), "x".into()], vec![0, 1, 2]));
    let few = read(&Csv::new().label_of("k", ["a", "b", "c"]), b"k\nc\n").unwrap();
    assert_eq!((few.labels, few.classes.len()), (vec![2], 3));
}

#[test]
fn missing_numbers_when_allowed_become_nan() {
    let frame = read(&Csv::new().missing(true), b"a,b,c,d\n,?, NA ,nan\n1,2,3,4\n").unwrap();
    assert!(frame.features.view().row(0).iter().all(|x| x.is_nan()));
    assert!(error(&Csv::new().missing(true), b"a\ninf\n").contains("expected a finite number, found \"inf\""));
}

#[test]
fn malformed_csv_error_names_file_and_position() {
    let (plain, kind) = (Csv::new(), Csv::new().label_of("k", ["a", "b"]));
    let number = "expected a finite number, found";
    for (csv, file, expected) in [
        (&plain, "a,b\n1,2\n3,x\n", format!("line 3, column 2 (`b`): {number} \"x\"; ")),
        (&plain, "a,b\n1,2\n\n\n3,\n", format!("line 5, column 2 (`b`): {number} \"\"; ")),
        (&plain, "a,b\r\n1,2\r\n\r\nNaN,3", format!("line 4, column 1 (`a`): {number} \"NaN\"; ")),
        (&plain, "a\n1e999\n", format!("line 2, column 1 (`a`): {number} \"1e999\"; ")),
        (&plain, "a,b\n\"1\n\n\",2\nx,3\n", format!("line 5, column 1 (`a`): {number} \"x\"; ")),
        (&plain, "a,b\n1,\"2\n3,4\n", "line 2: expected a closing quote, found none before the end".into()),
        (&plain, "a,b\n1,2,3\n", "line 2: expected 2 columns, found 3; check for missing or extra delimiters".into()),
        (&plain, "a,b\n1,2\n1\n", "line 3: expected 2 columns, found 1; ".into()),
        (&plain, "a,b,a\n", "line 1, column 3: expected a distinct name, found \"a\", the name of column 1".into()),
        (&plain, "", "end of file: expected a header line, found nothing; ".into()),
        (&plain, "a,b\n", "end of file: expected a row, found nothing; ".into()),
        (&kind, "x,k\n1,c\n", "line 2, column 2 (`k`): expected one of the classes [\"a\", \"b\"], found \"c\"".into()),
        (&kind, "x,kind\n1,a\n", "line 1: expected a column `k`, found \"x\", \"kind\"; ".into()),
        (&Csv::new().label("k"), "k\n\" \"\n", "line 2, column 1 (`k`): expected the name of a class".into()),
        (
            &Csv::new().label_below("k", 10),
            "k\n9\n10\n",
            "line 3, column 1 (`k`): expected a whole number below 10, found \"10\"".into(),
        ),
        (
            &Csv::new().label_below("k", 10),
            "k\n-1\n",
            "line 2, column 1 (`k`): expected a whole number below 10, found \"-1\"".into(),
        ),
        (
            &Csv::new().features([5]),
            "a,b\n",
            "line 1: expected column number 5, counted from 0, found 2 columns".into(),
        ),
        (
            &Csv::new().header(false).target("a"),
            "1,2\n",
            "line 1: expected a column `a`, found columns without names".into(),
        ),
        (&Csv::new().features(["a"]).label("a"), "a\n1\n", "column 1 (`a`) is selected twice".into()),
        (&Csv::new().header(false), "", "end of file: expected a row, found nothing; ".into()),
    ] {
        let error = error(csv, file.as_bytes());
        assert!(error.starts_with(&expected), "{file:?}\n  says     {error}\n  expected {expected}");
    }
    assert!(error(&plain, b"a,b\n1,2\n3,\xff\n").starts_with("line 3, column 2 (`b`): expected text in UTF-8"));
    assert!(error(&plain, b"a,\xff\n").starts_with("line 1, column 2: expected a name in UTF-8"));
}

#[test]
fn invalid_csv_settings_are_refused() {
    let text = |csv: &Csv| read(csv, b"a\n1\n").unwrap_err().to_string();
    assert!(text(&Csv::new().label_of("a", ["x", "x"])).contains("\"x\" is listed twice"));
    assert!(text(&Csv::new().label_of("a", [""; 0])).contains("list of classes is empty"));
    assert!(text(&Csv::new().label_below("a", 0)).contains("classes is 0"));
    assert!(text(&Csv::new().delimiter(b'\n')).contains("delimiter"));
    assert!(text(&Csv::new().delimiter(b'#').comment(b'#')).contains("comments"));
}

#[test]
fn csv_from_file_folder_and_gzip() {
    let missing = Csv::new().read::<f32>("no/such.csv").unwrap_err().to_string();
    assert!(missing.starts_with("no/such.csv: cannot be read: "), "{missing}");
    let folder = tempfile::tempdir().unwrap();
    assert!(Csv::new().read::<f32>(folder.path()).is_err());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, b"a\n1\n2").unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(read(&Csv::new(), &gzip).unwrap().features, Nd::from([[1.0], [2.0]]));
    for length in 2..gzip.len() {
        let error = error(&Csv::new(), &gzip[..length]);
        assert!(error.contains("get the file again"), "{length}: {error}");
    }
    let limited = Csv::new().read::<f32>(Source::memory("x.csv", b"a\n1\n2").limit(4)).unwrap_err();
    assert!(limited.to_string().contains("at most 4 bytes"), "{limited}");
}

/// White space before a quote is not part of the text; inside quotes it is.
#[test]
fn quoted_field_after_white_space_is_unquoted() {
    let file = "x, \"kind\"\n 1, \"small\"\n\t2,small\n3 ,\"small\" \n4,  \"a \"\"b\"\", c\n\"\n";
    let frame = Csv::new().label("kind").read::<f64>(Source::memory("k.csv", file.as_bytes())).unwrap();
    assert_eq!(frame.classes, ["a \"b\", c", "small"]);
    assert_eq!(frame.labels, [1, 1, 1, 0]);
    assert_eq!(frame.features, Nd::from([[1.0], [2.0], [3.0], [4.0]]));
    let tabs = Csv::new().delimiter(b'\t').read::<f64>(Source::memory("t.csv", b"a\tb\n 1\t \"2\"\n")).unwrap();
    assert_eq!(tabs.features, Nd::from([[1.0, 2.0]]));
    let comments = b"\xef\xbb\xbf\"a b\", c\n# x, \"y\n 1, 2\n # z\n3,4\n";
    let frame = read(&Csv::new().comment(b'#'), comments).unwrap();
    assert_eq!((frame.names, frame.features), (vec!["a b".into(), "c".into()], Nd::from([[1.0, 2.0], [3.0, 4.0]])));
}
