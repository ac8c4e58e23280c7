"""What PTX instructions do, in exact arithmetic: integers and fractions of any size, rounded once."""
