"""`python -m ofediq` is the `ofediq` command."""

from ofediq.cli.app import main

if __name__ == "__main__":
    main()
