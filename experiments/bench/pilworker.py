"""A PIL worker beside `gradlab bench data`.

Its one argument is JSON: the folder of pictures, the side of a sample, and whether
JPEGs are decoded at a fraction of their size where that is enough. It says hello in
one line of JSON. Then every line on standard input is a number of pictures to read,
crop at random and scale; the answer is one line of JSON with the seconds of processor
time they took. It ends with its input.
"""
import json
import math
import os
import random
import sys
import time


def say(**answer):
    print(json.dumps(answer), flush=True)


try:
    import PIL
    from PIL import Image
except Exception as error:  # whatever is wrong with the installation
    say(error="cannot import PIL: %s" % error)
    sys.exit(1)


def crop(width, height):
    """The box of torchvision's RandomResizedCrop."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        aspect = math.exp(random.uniform(-math.log(4 / 3), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            x, y = random.randint(0, width - w), random.randint(0, height - h)
            return x, y, x + w, y + h
    side = min(width, height)
    x, y = (width - side) // 2, (height - side) // 2
    return x, y, x + side, y + side


def sample(path, size, draft):
    with Image.open(path) as picture:
        width, height = picture.size
        box = crop(width, height)
        if draft:
            wide = math.ceil(width * size / (box[2] - box[0]))
            high = math.ceil(height * size / (box[3] - box[1]))
            picture.draft("RGB", (wide, high))
            across, down = picture.size[0] / width, picture.size[1] / height
            box = (box[0] * across, box[1] * down, box[2] * across, box[3] * down)
        picture = picture.convert("RGB").resize((size, size), Image.BILINEAR, box=box)
        if random.random() < 0.5:
            picture = picture.transpose(Image.FLIP_LEFT_RIGHT)
        return picture


def main():
    ask = json.loads(sys.argv[1])
    train = os.path.join(ask["dir"], "train")
    root = train if os.path.isdir(train) else ask["dir"]
    files = sorted(os.path.join(where, name) for where, _, names in os.walk(root) for name in names
                   if name.lower().endswith((".jpg", ".jpeg", ".png", ".bmp", ".webp")))
    if not files:
        say(error="no pictures in " + root)
        sys.exit(1)
    random.seed(1)
    random.shuffle(files)
    sample(files[0], ask["size"], ask["draft"])
    say(pil=PIL.__version__, files=len(files))
    at = 0
    for line in sys.stdin:
        start = time.process_time()
        for _ in range(int(line)):
            sample(files[at % len(files)], ask["size"], ask["draft"])
            at += 1
        say(seconds=time.process_time() - start)


main()
