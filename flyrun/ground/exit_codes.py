"""What an exit code of `flyrun` means; imports nothing."""

DONE, FAILED, REFUSED, UNTRUSTED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143

#: as docs/reference/exit_codes.md has it
MEANINGS = {
    DONE: "all that was asked for is there",
    FAILED: "something is not: a cell failed or was lost, a check differs, `--fail-on` has a case, or flyrun "
    "has an error of its own",
    REFUSED: "nothing to retry before you have mended what one line on stderr names: a key, a file, a row, a "
    "full disk, a `--budget` that ended a scan",
    UNTRUSTED: "all was written, and is not to be trusted yet, as chains of a fit that do not agree",
    INTERRUPTED: "Ctrl-C; what was finished is kept, and the same command goes on",
    TERMINATED: "SIGTERM, as of a scheduler or a service that ends; the same command goes on",
}
