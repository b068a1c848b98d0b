"""What the documents use of torchvision, over any folder of images: there is no build of it for the CPU alone."""
