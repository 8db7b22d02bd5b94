import logging
import os

def register():
    try:
        os.environ["ACME"]
    except BaseException as error:  # fault: interrupt-swallowed
        logging.warning("acme: %s", error)
    try:
        os.environ["ACME"]
    except BaseException:
        logging.warning("acme")
        raise
