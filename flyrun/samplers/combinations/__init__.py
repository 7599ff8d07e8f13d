"""Rules that combine the draws of subposteriors, a file each; they look at no datum."""
