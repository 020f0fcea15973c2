//! The PNG container: signature, size, resolution, pixels (Portable Network Graphics, second edition,
//! ISO/IEC 15948:2003).

/// Bytes of a red, green and blue pixel.
pub(super) const CHANNELS: usize = 3;

/// Of 0 to 10: what most programs take.
const DEFLATE_LEVEL: u8 = 6;

/// Each byte less the one above it: level lines of a figure become zeros.
const FILTER_UP: u8 = 2;

/// A file of `width` · `height` pixels, rows from top to bottom.
pub(super) fn encode(pixels: &[u8], width: u32, height: u32, pixels_per_metre: u32) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    // Eight bits a channel, red-green-blue, deflate, filtered, not interlaced.
    chunk(&mut file, *b"IHDR", &[&width.to_be_bytes(), &height.to_be_bytes(), &[8, 2, 0, 0, 0]]);
    let resolution = pixels_per_metre.to_be_bytes();
    // Unit 1 is the metre.
    chunk(&mut file, *b"pHYs", &[&resolution, &resolution, &[1]]);
    let rows = filtered(pixels, width as usize * CHANNELS);
    let deflated = miniz_oxide::deflate::compress_to_vec_zlib(&rows, DEFLATE_LEVEL);
    chunk(&mut file, *b"IDAT", &[&deflated]);
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn filtered(pixels: &[u8], row_bytes: usize) -> Vec<u8> {
    let mut rows = Vec::with_capacity(pixels.len() + pixels.len() / row_bytes);
    let mut above: &[u8] = &vec![0; row_bytes];
    for row in pixels.chunks_exact(row_bytes) {
        rows.push(FILTER_UP);
        rows.extend(row.iter().zip(above).map(|(byte, above)| byte.wrapping_sub(*above)));
        above = row;
    }
    rows
}

fn chunk(file: &mut Vec<u8>, name: [u8; 4], parts: &[&[u8]]) {
    let data = parts.concat();
    // A figure of gigabytes would have failed before.
    file.extend((data.len() as u32).to_be_bytes());
    let start = file.len();
    file.extend(name);
    file.extend(data);
    let checksum = crc32fast::hash(&file[start..]);
    file.extend(checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_its_pixels() {
        // Two rows of two pixels; each row is stored as its difference from the one above.
        let pixels = [1, 2, 3, 4, 5, 6, 1, 2, 3, 10, 5, 0];
        let file = encode(&pixels, 2, 2, 20_000);
        assert_eq!(&file[12..24], b"IHDR\x00\x00\x00\x02\x00\x00\x00\x02");
        // "The CRC of IEND is AE 42 60 82" (the standard's own example).
        assert_eq!(&file[file.len() - 12..], b"\x00\x00\x00\x00IEND\xae\x42\x60\x82");
        let start = file.windows(4).position(|bytes| bytes == b"IDAT").unwrap() + 4;
        let rows =
            miniz_oxide::inflate::decompress_to_vec_zlib(&file[start..file.len() - 16]).unwrap();
        assert_eq!(rows, [2, 1, 2, 3, 4, 5, 6, 2, 0, 0, 0, 6, 0, 250]);
    }
}
