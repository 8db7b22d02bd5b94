from .helpers import work
