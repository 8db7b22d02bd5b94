# fault in the file: source-not-read
def broken(:
