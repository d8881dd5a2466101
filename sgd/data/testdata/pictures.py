"""Writes pictures of many modes, and their pixels as PIL's convert("RGB") gives them.

    python3 pictures.py OUT.zip

Each picture NAME has its pixels in NAME.rgb: a byte of width, one of height, then red,
green and blue of each pixel, row by row.
"""

import io
import sys
import zipfile

from PIL import Image

W, H = 21, 18


def plane(f, w=W, h=H):
    picture = Image.new("L", (w, h))
    picture.putdata([f(i % w, i // w) % 256 for i in range(w * h)])
    return picture


red, green, blue = plane(lambda x, y: 11 * x + y), plane(lambda x, y: 13 * y), plane(lambda x, y: 255 - 3 * x - 4 * y)
alpha = plane(lambda x, y: 37 * x + 11 * y)
grey = red
rgb = Image.merge("RGB", (red, green, blue))
rgba = Image.merge("RGBA", (red, green, blue, alpha))
la = Image.merge("LA", (grey, alpha))
palette = rgb.quantize(16)
black_and_white = grey.convert("1")
wide = [Image.merge("RGB", [p.resize(size) for p in (red, green, blue)]) for size in [(1, 1), (2, 1), (1, 2), (3, 5), (17, 16), (33, 17)]]

files = {}


def add(name, picture, form, **options):
    out = io.BytesIO()
    picture.save(out, form, **options)
    files[name] = out.getvalue()


for name, picture in dict(rgb=rgb, rgba=rgba, l=grey, la=la, p=palette, bw=black_and_white).items():
    add(f"{name}.png", picture, "PNG")
add("p-one-transparent.png", palette, "PNG", transparency=3)
add("p-all-transparent.png", palette, "PNG", transparency=bytes(range(0, 256, 16)))
add("rgb-one-transparent.png", rgb, "PNG", transparency=rgb.getpixel((3, 2)))
add("l-one-transparent.png", grey, "PNG", transparency=grey.getpixel((3, 2)))
for quality in (10, 75, 100):
    add(f"rgb-{quality}.webp", rgb, "WEBP", quality=quality)
    add(f"rgba-{quality}.webp", rgba, "WEBP", quality=quality)
add("rgb-lossless.webp", rgb, "WEBP", lossless=True)
add("rgba-lossless.webp", rgba, "WEBP", lossless=True, exact=True)
add("black.webp", Image.new("RGB", (9, 8)), "WEBP")
add("white.webp", Image.new("RGB", (8, 9), "white"), "WEBP")
for picture in wide:
    add("%d-%d.webp" % picture.size, picture, "WEBP")
add("p.gif", palette, "GIF")
add("p-transparent.gif", palette, "GIF", transparency=3)
add("l.gif", grey, "GIF")
add("two.gif", palette, "GIF", save_all=True, append_images=[rgb.rotate(90).quantize(8)])
for name in ("p.gif", "p-transparent.gif"):  # on a larger canvas, away from its corner
    b = bytearray(files[name])
    b[6], b[8] = W + 8, H + 7
    at = 13 + (3 << (1 + (b[10] & 7)))
    while b[at] == 0x21:
        at += 2
        while b[at]:
            at += 1 + b[at]
        at += 1
    b[at + 1], b[at + 3] = 4, 3
    files["canvas-" + name] = bytes(b)
for name, picture in dict(rgb=rgb, rgba=rgba, l=grey, p=palette, bw=black_and_white).items():
    add(f"{name}.tiff", picture, "TIFF")
    add(f"{name}-lzw.tiff", picture, "TIFF", compression="tiff_lzw")
add("bw-g4.tiff", black_and_white, "TIFF", compression="group4")
add("bw-g3.tiff", black_and_white, "TIFF", compression="group3")
for name, picture in dict(rgb=rgb, rgba=rgba, l=grey, p=palette).items():
    add(f"{name}.bmp", picture, "BMP")
add("rgb.jpg", rgb, "JPEG", quality=95, subsampling=0)
add("rgb-420.jpg", rgb, "JPEG", quality=95, progressive=True)
add("l.jpg", grey, "JPEG")
add("cmyk.jpg", rgb.convert("CMYK"), "JPEG", quality=95)

with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as out:

    def write(name, content):
        out.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)

    for name, content in files.items():
        picture = Image.open(io.BytesIO(content))
        write(name, content)
        write(name + ".rgb", bytes(picture.size) + picture.convert("RGB").tobytes())
