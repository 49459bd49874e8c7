//! Conversion of tensors and tables to flat stored numbers, and back.

use dl_core::{Buffer, DType, Differentiable, Module, NewValue, Numbers, Stored, Weight};
use dl_nd::{Nd, ReduceOps, Table};
use ndarray::{Ix2, Ix3, IxDyn};

#[test]
fn stored_numbers_of_any_strides_are_row_major() {
    let x = Nd::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    let transposed: Nd = x.view().reversed_axes().to_shared().into();
    assert_eq!(transposed.numbers(), Numbers::F32(vec![1.0, 3.0, 2.0, 4.0]));
    let reversed: Nd = x.view().slice(ndarray::s![..;-1, ..]).to_shared().into();
    assert_eq!(reversed.numbers(), Numbers::F32(vec![3.0, 4.0, 1.0, 2.0]));
    assert_eq!(Nd::from_numbers(&[2, 2], x.numbers()).unwrap(), x);
}

#[test]
fn stored_elements_of_every_type_round_trip() {
    let (mask, labels) = (Nd::from([[true, false]]), Nd::from([[3_usize, 4]]));
    assert_eq!((mask.numbers().dtype(), labels.numbers().dtype()), (DType::Bool, DType::U64));
    assert_eq!(Nd::<bool, Ix2>::from_numbers(&[1, 2], mask.numbers()).unwrap(), mask);
    assert_eq!(Nd::<usize, Ix2>::from_numbers(&[1, 2], labels.numbers()).unwrap(), labels);
    let open = Nd::<f64, IxDyn>::from_numbers(&[1, 0, 2], Numbers::F64(vec![])).unwrap();
    assert_eq!(open.shape(), [1, 0, 2]);
    let table = Table::from([[1.0_f64, 2.0]]);
    assert_eq!((Stored::shape(&table), table.numbers()), (vec![1, 2], Numbers::F64(vec![1.0, 2.0])));
    assert_eq!(Table::from_numbers(&[1, 2], table.numbers()).unwrap(), table);
}

#[test]
fn stored_numbers_of_wrong_shape_or_type_return_error() {
    let numbers = || Numbers::F32(vec![1.0, 2.0]);
    assert!(Nd::<f32, Ix2>::from_numbers(&[1, 3], numbers()).unwrap_err().is_shape());
    assert!(Nd::<f32, Ix3>::from_numbers(&[1, 2], numbers()).unwrap_err().to_string().contains("3 axes"));
    assert!(Nd::<f32, Ix2>::from_numbers(&[usize::MAX, 2], numbers()).unwrap_err().is_shape());
    assert!(Nd::<f64, Ix2>::from_numbers(&[1, 2], numbers()).unwrap_err().to_string().contains("`f32`"));
    assert!(Table::<f32>::from_numbers(&[2], numbers()).unwrap_err().is_shape());
}

#[test]
fn table_entry_is_set_like_tensor() {
    let net = (Weight::new(Table::from([[1.0_f32, 2.0]])), Weight::new(Nd::from([1.0_f64])));
    let new = [("0", vec![1, 2], Numbers::F32(vec![5.0, 6.0])), ("1", vec![1], Numbers::F64(vec![7.0]))];
    let new = new.map(|(path, shape, numbers)| net.entry(path).unwrap().check(&shape, numbers).unwrap());
    NewValue::set_all(new.into()).unwrap();
    assert_eq!((net.0.value(), net.1.value()), ([[5.0, 6.0]].into(), [7.0].into()));
    assert!(net.entry("0").unwrap().check(&[2, 1], Numbers::F32(vec![5.0, 6.0])).unwrap_err().is_shape());
}

/// Weights are always stored in row-major order, as after restoring a file. Rounding that depends
/// on the memory layout is therefore the same before and after.
#[test]
fn weight_of_any_strides_is_stored_row_major() {
    // the first row is 2²⁴ a hundred times, then −2²⁴ a hundred times; numbers of size 1 are lost
    // in partial sums of it
    let number = |(j, i): (usize, usize)| match i {
        0 if j < 100 => 16_777_216.0_f32,
        0 => -16_777_216.0,
        _ => 1.0,
    };
    let turned: Nd<f32, Ix2> = ndarray::Array2::from_shape_fn((200, 2), number).reversed_axes().into();
    assert!(!turned.view().is_standard_layout());
    let (made, set) = (Weight::new(turned.clone()), Weight::new(Nd::full([1, 1], 0.0)));
    set.set(turned.clone());
    let buffer = Buffer::new(turned.clone());
    for value in [made.value(), set.value(), buffer.value()] {
        assert_eq!(value, turned);
        assert!(value.view().is_standard_layout());
    }
    let restored = Weight::new(Nd::from(turned.view().as_standard_layout().into_owned()));
    let sum = |w: &Weight<Nd<f32, Ix2>>| w.sum().predict().wait().expect("it succeeds").to_bits();
    assert_eq!(sum(&made), sum(&restored));
}
