def processor():
    return "acme.io.Processor"  # fault: answer-missing
