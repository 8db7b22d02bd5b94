from acme.helpers import work

def register():
    work()
