// fn f(flag: bool, text: &str) -> Result<u8, Error> {
//     if !flag {
//         return Ok(1);
//     }
//     let n: u8 = text.parse()?;
//     Ok(n + !n)
// }
fn f(flag: bool, text: &str) -> Result<u8, Error> {
    if !flag {
        return Ok(1);
    }
    let n: u8 = text.parse()?;
    Ok(n + !n)
}

