"""Rules that combine the draws of subposteriors; they look at no datum."""
