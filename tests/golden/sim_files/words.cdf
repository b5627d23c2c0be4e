10 half
