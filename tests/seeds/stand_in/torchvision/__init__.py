"""The parts of torchvision that the documents use, over any folder of images: no build of it is for the CPU alone."""
