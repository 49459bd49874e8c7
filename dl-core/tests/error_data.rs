//! Errors as plain data.

use dl_core::{Differentiable, Do, Error, ErrorClass, ErrorData, Layer, Result};

fn failing(error: Error) -> Layer<f64> {
    Layer::from(Do::<f64>::fail(error))
}

fn far(error: &Error) -> Error {
    ErrorData::decode(&error.data().encode()).unwrap().into_error()
}

#[test]
fn error_keeps_kind_and_text_on_its_way() {
    let once = Do::from_future(async { Ok(1.0) });
    once.wait().unwrap();
    let all: [(Error, ErrorClass); 6] = [
        (Error::shape("[2] and [3]").context("batch 7"), ErrorClass::Shape),
        (Error::invalid("axis 3"), ErrorClass::Invalid),
        (Error::not_finite("NaN"), ErrorClass::NotFinite),
        (Error::other(std::io::Error::other("the disk is full")), ErrorClass::Other),
        (Do::now(()).map(|()| -> f64 { panic!("oh") }).wait().unwrap_err(), ErrorClass::Panic),
        (once.wait().unwrap_err(), ErrorClass::RanTwice),
    ];
    for (error, class) in all {
        for error in [error.clone(), failing(error).predict().wait().unwrap_err()] {
            let copy = far(&error);
            assert_eq!((copy.data().class, copy.to_string()), (class, error.to_string()));
            assert_eq!((format!("{copy:#}"), format!("{copy:?}")), (format!("{error:#}"), format!("{error:?}")));
            assert_eq!(copy.data(), error.data());
            assert_eq!(far(&copy).data(), error.data());
            let is = |error: &Error| {
                [
                    error.is_shape(),
                    error.is_invalid(),
                    error.is_not_finite(),
                    error.is_panic(),
                    error.is_ran_twice(),
                    error.is_cancelled(),
                ]
            };
            assert_eq!(is(&copy), is(&error));
        }
    }
}

#[test]
fn error_with_others_keeps_them() {
    let error = (failing(Error::invalid("left")) + failing(Error::shape("right"))).predict().wait().unwrap_err();
    let copy = far(&error);
    assert_eq!((copy.others().len(), copy.to_string()), (1, error.to_string()));
    assert!(copy.others()[0].is_shape());
    assert_eq!(copy.data(), error.data());
}

#[test]
fn error_of_other_program_gets_second_place_from_layer() {
    let there = failing(Error::invalid("the expert fell over")).predict().wait().unwrap_err();
    let here = failing(far(&there).context("rank 1")).predict().wait().unwrap_err();
    let (near, origin) = (here.data(), here.data().origin.unwrap());
    assert_eq!(origin.place.as_ref().map(|place| place.line), there.place().map(|place| place.line()));
    assert_eq!(near.place.as_ref().map(|place| place.line), here.place().map(|place| place.line()));
    assert!(here.to_string().contains(&there.to_string()) && here.to_string().contains("rank 1"), "{here}");
    // and a third one, on the way back
    let third = far(&here);
    assert_eq!((third.to_string(), third.data()), (here.to_string(), near));
}

#[test]
fn damaged_error_is_error_and_does_not_panic() {
    let error = (failing(Error::invalid("left")) + failing(Error::shape("right"))).predict().wait().unwrap_err();
    let bytes = error.data().encode();
    for end in 0..bytes.len() {
        assert!(ErrorData::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let _: Result<ErrorData> = ErrorData::decode(&damaged); // any outcome, but no panic and no huge memory
        }
    }
    // an error in an error in an error …
    let deep = |levels: usize| {
        let one = Error::invalid("x").data();
        (0..levels).fold(one.clone(), |inner, _| ErrorData { origin: Some(Box::new(inner)), ..one.clone() })
    };
    assert!(ErrorData::decode(&deep(20).encode()).is_ok());
    assert!(ErrorData::decode(&deep(500).encode()).unwrap_err().to_string().contains("nested"));
}
