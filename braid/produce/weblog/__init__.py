"""The made-up web log: requests of an imaginary site, with as much disorder as was asked for."""
