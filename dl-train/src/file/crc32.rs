//! CRC-32 checksums.

/// A running checksum. The polynomial is bit-reversed, since bytes are processed with the lowest
/// bit first.
#[derive(Clone, Copy)]
pub(crate) struct Crc<const POLYNOMIAL: u32>(u32);

/// The CRC-32 of zlib, gzip and PNG.
pub(crate) type Crc32 = Crc<0xEDB8_8320>;

/// The CRC-32C (Castagnoli) of TensorFlow's record files.
pub(crate) type Crc32c = Crc<0x82F6_3B78>;

const fn tables(polynomial: u32) -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut more = 1;
    while more < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[more - 1][byte];
            tables[more][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        more += 1;
    }
    tables
}

impl<const POLYNOMIAL: u32> Crc<POLYNOMIAL> {
    /// `TABLES[k][b]`: the contribution of byte `b` to the checksum after `k` further bytes.
    const TABLES: &'static [[u32; 256]; 8] = &tables(POLYNOMIAL);

    pub(crate) fn new() -> Self {
        Crc(!0)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let (eights, rest) = bytes.as_chunks::<8>();
        let mut crc = self.0;
        for eight in eights {
            let word = u64::from_le_bytes(*eight) ^ u64::from(crc);
            let bytes = word.to_le_bytes();
            crc = bytes.iter().zip(Self::TABLES.iter().rev()).fold(0, |sum, (&b, table)| sum ^ table[b as usize]);
        }
        self.0 = rest.iter().fold(crc, |crc, &byte| crc >> 8 ^ Self::TABLES[0][(crc as u8 ^ byte) as usize]);
    }

    pub(crate) fn finish(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Crc32, Crc32c};

    fn crc32(parts: &[&[u8]]) -> u32 {
        let mut crc = Crc32::new();
        parts.iter().for_each(|part| crc.update(part));
        crc.finish()
    }

    #[test]
    fn crc_of_check_strings_matches_published_values() {
        assert_eq!(crc32(&[b"123456789"]), 0xCBF4_3926);
        let mut castagnoli = Crc32c::new();
        castagnoli.update(b"123456789");
        assert_eq!(castagnoli.finish(), 0xE306_9283);
        assert_eq!(crc32(&[b""]), 0);
        assert_eq!(crc32(&[b"The quick brown fox jumps over the lazy dog"]), 0x414F_A339);
    }

    #[test]
    fn crc_is_independent_of_split() {
        let bytes: Vec<u8> = (0..1000_u32).map(|i| (i * i % 251) as u8).collect();
        let (one, two, three) = (&bytes[..3], &bytes[3..500], &bytes[500..]);
        assert_eq!(crc32(&[one, two, three]), crc32(&[&bytes]));
    }
}
