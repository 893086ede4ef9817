// Command holdfast is the gateway and its tools.
package main

import (
	"os"

	"github.com/holdfast-ai/holdfast/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
