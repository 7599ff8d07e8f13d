"""Colours and lines of figures."""

# Told apart by colour-blind readers (Okabe & Ito 2008); their yellow is too pale, two more stand for it.
BLACK, BLUE, GREEN, ORANGE = "#000000", "#0072B2", "#009E73", "#E69F00"


PINK, SKY, VERMILION, VIOLET, GREY = "#CC79A7", "#56B4E9", "#D55E00", "#8C6BB1", "#7F7F7F"


PALETTE = (BLUE, GREEN, ORANGE, PINK, SKY, VERMILION, VIOLET, GREY)


LINES = ("-", "--", "-.", ":")
