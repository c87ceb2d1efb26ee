"""What the images are made of and what their scripts do. No image is built."""
