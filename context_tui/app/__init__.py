"""The program itself: configuration, state kept between runs, packages that extend it, signals."""
