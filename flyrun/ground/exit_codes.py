"""What an exit code of `flyrun` means."""

#: all that was asked for is there
DONE = 0
#: something is not: a cell failed or was lost, a check differs, an error of our own
FAILED = 1
#: nothing to retry before a person has mended what one line names: a key, a file, a full disk
REFUSED = 2
#: all was written, but is not to be trusted: the chains of a fit do not agree yet
UNTRUSTED = 3
#: Ctrl-C, or a signal that asks for an end; the same command goes on
INTERRUPTED = 130
#: SIGTERM, as of a scheduler or a service that ends, while a fit was at work; the same command goes on
TERMINATED = 143
