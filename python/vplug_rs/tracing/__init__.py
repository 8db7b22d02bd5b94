"""One timeline over all Python processes of a program: `recorder` writes in each, `timeline` reads, `page` draws."""
