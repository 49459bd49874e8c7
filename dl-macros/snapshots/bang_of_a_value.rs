// fn f(net: &Net) -> NdLayer {
//     let v = !net.gate();
//     net.of(v)
// }
fn f(net: &Net) -> NdLayer {
    let v = {
        let start = ::dl::bang::value(net.gate()).start();
        let value = start.await?;
        value
    };
    net.of(v)
}

