//! Images as tensors (feature `images`).

use crate::error::read_error;
use crate::source::{Source, unreadable};
use dl_core::{Error, Result};
use dl_nd::Nd;
use dl_nd::ndarray::Ix3;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// Reads a PNG, JPEG, WebP, BMP or GIF file as a tensor `[channels, height, width]` with elements
/// from 0 to 1. The format is detected by the first bytes of the file. With `grey` the image has
/// one channel instead of three. `size` is the `(height, width)` to resize to; `None` keeps the
/// size. An image is turned and mirrored as the orientation in its EXIF data says.
///
/// Colours are those of the palette, if there is one. Transparency is ignored: a pixel has the
/// colour that is stored for it. Of an animation the first frame is read, on black if it does not
/// fill the image.
///
/// ```
/// use dl_data::{Source, read_image};
/// let error = read_image(Source::memory("x.png", b"no image"), false, None).unwrap_err();
/// assert!(error.to_string().starts_with("x.png: offset 0: expected a PNG, JPEG, WebP, BMP or GIF image"));
/// ```
///
/// # Errors
/// When the file cannot be read, is not an image of these formats, is detectably damaged, or needs
/// more memory than the limit of the source. Only PNG has checksums; of a JPEG the end marker is
/// checked, of a WebP the lengths of its chunks.
pub fn read_image<'a>(source: impl Into<Source<'a>>, grey: bool, size: Option<(u32, u32)>) -> Result<Nd<f32, Ix3>> {
    let source = source.into();
    let limit = source.limit_in_bytes();
    if let Some((height, width)) =
        size.filter(|&(height, width)| height == 0 || width == 0 || decoded_size(height, width) > limit)
    {
        return Err(Error::invalid(format!(
            "a size of {height} × {width}: it must be at least 1 × 1, and the image must fit in {limit} bytes"
        )));
    }
    let name = source.name().to_owned();
    let damaged = |expected: &str, found: &dyn std::fmt::Display| {
        let advice = "get the file again: it is damaged, or not a PNG, JPEG, WebP, BMP or GIF image";
        read_error(&name, "offset 0", expected, found, advice)
    };
    let failed = |error: ImageError| match error {
        ImageError::Limits(_) => {
            let expected = format!("an image that decodes within {limit} bytes");
            read_error(&name, "offset 0", expected, "one that needs more", "raise the limit if you trust the file")
        }
        ImageError::Unsupported(what) => {
            read_error(&name, "offset 0", "a common kind of image", what, "convert it to a PNG file in RGB or grey")
        }
        error => damaged("a complete image", &error),
    };
    let mut file = source.open_seekable()?;
    let unread = |error: io::Error| unreadable(&name, error);
    let Ends { size: bytes, first, last } = Ends::of(&mut file).map_err(unread)?;
    if bytes > limit {
        let expected = format!("at most {limit} bytes in the file");
        return Err(read_error(&name, "offset 0", expected, bytes, "raise the limit if you trust the file"));
    }
    let Some(format) = format_of(&first) else {
        return Err(damaged("a PNG, JPEG, WebP, BMP or GIF image", &"other bytes"));
    };
    let incomplete = match format {
        // The decoder fills missing parts with grey.
        ImageFormat::Jpeg if !ends_with_marker(&last) && !has_end_marker(&mut file).map_err(unread)? => {
            Some(("a complete JPEG image", "no end-of-image marker"))
        }
        // The decoder allocates what the length of a chunk says.
        ImageFormat::WebP if !has_whole_chunks(&mut file, bytes).map_err(unread)? => {
            Some(("a complete WebP image", "a chunk beyond the end"))
        }
        _ => None,
    };
    if let Some((expected, found)) = incomplete {
        return Err(damaged(expected, &found));
    }
    let mut reader = ImageReader::with_format(file, format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(limit);
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder().map_err(failed)?;
    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return Err(damaged("an image with pixels", &format_args!("one of {height} × {width} pixels")));
    }
    if decoded_size(height, width) > limit {
        let expected = format!("an image that decodes within {limit} bytes");
        let found = format_args!("one of {height} × {width} pixels");
        return Err(read_error(&name, "offset 0", expected, found, "raise the limit if you trust the file"));
    }
    decoder.set_limits(limits).map_err(failed)?;
    let orientation = decoder.orientation().map_err(failed)?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(failed)?;
    image.apply_orientation(orientation);
    if let Some((height, width)) = size {
        image = image.resize_exact(width, height, FilterType::Triangle);
    }
    tensor(image, grey)
}

/// The extensions of the formats, in lower case.
pub(crate) const EXTENSIONS: [&str; 6] = ["png", "jpg", "jpeg", "webp", "bmp", "gif"];

/// The format of a file with these first bytes.
fn format_of(first: &[u8]) -> Option<ImageFormat> {
    match first {
        [0x89, b'P', b'N', b'G', ..] => Some(ImageFormat::Png),
        [0xFF, 0xD8, 0xFF, ..] => Some(ImageFormat::Jpeg),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(ImageFormat::WebP),
        [b'B', b'M', ..] => Some(ImageFormat::Bmp),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(ImageFormat::Gif),
        _ => None,
    }
}

/// The size of a file, and its first and last bytes.
struct Ends {
    size: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Ends {
    /// Reads both ends, then rewinds the file.
    fn of(file: &mut (impl Read + Seek)) -> io::Result<Ends> {
        const LENGTH: u64 = 64;

        let size = file.seek(SeekFrom::End(0))?;
        let mut part = |start: u64| {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(start))?;
            file.take(LENGTH).read_to_end(&mut bytes)?;
            io::Result::Ok(bytes)
        };
        let (first, last) = (part(0)?, part(size.saturating_sub(LENGTH))?);
        file.rewind()?;
        Ok(Ends { size, first, last })
    }
}

/// Whether the last bytes of a JPEG, but for zeros, are its end marker.
fn ends_with_marker(last: &[u8]) -> bool {
    let end = last.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    last[..end].ends_with(&[0xFF, 0xD9])
}

/// Whether the segments of a JPEG lead to its end marker. Other data may follow the marker, such as
/// the video of a motion photo. Rewinds the file.
fn has_end_marker(file: &mut (impl Read + Seek)) -> io::Result<bool> {
    fn scan(mut file: BufReader<impl Read + Seek>) -> io::Result<()> {
        let mut byte = [0];
        loop {
            // Skip the entropy-coded data up to the next marker. A marker may start with several
            // 0xFF bytes.
            while byte[0] != 0xFF {
                file.read_exact(&mut byte)?;
            }
            while byte[0] == 0xFF {
                file.read_exact(&mut byte)?;
            }
            match byte[0] {
                0xD9 => return Ok(()),
                // A stuffed byte of a scan, or a marker without a segment.
                0 | 1 | 0xD0..=0xD8 => {}
                _ => {
                    let mut length = [0; 2];
                    file.read_exact(&mut length)?;
                    file.seek_relative(i64::from(u16::from_be_bytes(length)) - 2)?;
                }
            }
        }
    }

    let scanned = scan(BufReader::new(&mut *file));
    file.rewind()?;
    match scanned {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        scanned => scanned.map(|()| true),
    }
}

/// Whether the chunks of a WebP, and the file that they form, lie within its bytes. Other data may
/// follow. Rewinds the file.
fn has_whole_chunks(file: &mut (impl Read + Seek), bytes: u64) -> io::Result<bool> {
    let mut chunks = BufReader::new(&mut *file);
    let mut header = [0; 8];
    let mut length = |at: u64| {
        chunks.seek(SeekFrom::Start(at))?;
        chunks.read_exact(&mut header)?;
        let [_, _, _, _, length @ ..] = header;
        io::Result::Ok(8 + u64::from(u32::from_le_bytes(length)))
    };
    let end = length(0)?;
    // the identifier of the format is behind the first header
    let mut at = 12;
    while end <= bytes && at + 8 <= end {
        at += length(at)?;
        // a chunk of odd length is padded
        at += at % 2;
    }
    file.rewind()?;
    // the last padding may be missing
    Ok(end <= bytes && at <= end + 1)
}

/// The bytes of a decoded image with three `f32` channels.
fn decoded_size(height: u32, width: u32) -> u64 {
    (u64::from(height) * u64::from(width)).saturating_mul(3 * size_of::<f32>() as u64)
}

fn tensor(image: DynamicImage, grey: bool) -> Result<Nd<f32, Ix3>> {
    let (height, width) = (image.height() as usize, image.width() as usize);
    let (channels, pixels) =
        if grey { (1, image.into_luma16().into_raw()) } else { (3, image.into_rgb16().into_raw()) };
    let mut planes = Vec::with_capacity(pixels.len());
    for channel in 0..channels {
        planes.extend(pixels.iter().skip(channel).step_by(channels).map(|&pixel| f32::from(pixel) / 65535.0));
    }
    Nd::from_vec([channels, height, width], planes)
}
